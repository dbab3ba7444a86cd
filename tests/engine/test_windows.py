"""The size of a microbatch is read off whatever it is made of, the short way as the long way."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from truestep.engine.windows import examples_of
from truestep.errors import WindowError
from truestep.probe.tree import leaves


class Pair(NamedTuple):
    """A tuple one of whose parts is called as a tensor's own attribute is."""

    shape: Any
    dtype: Any


@dataclass
class Fields:
    text: str
    x: Any


class Tagged(Tensor):
    """A tensor of a class of one's own."""


class Lines(list[Any]):
    """A list of a class of one's own."""


X, ONE, SCALAR = torch.zeros(4, 3), torch.zeros(1, 3), torch.tensor(1.0)
MICROBATCHES: dict[str, Any] = {
    "a tensor": X,
    "a pair": (X, ONE),
    "a list": [X, ONE],
    "nobody in it": (torch.zeros(0, 3), X),
    "a number first": (SCALAR, X),
    "a text first": ("text", X),
    "nothing first": (None, X),
    "an empty tuple first": ((), X),
    "an array": X.numpy(),
    "an array first": (X.numpy(), ONE),
    "a NumPy number first": (np.float32(3.0), X),
    "a dictionary": {"text": "text", "x": X},
    "an ordered dictionary": OrderedDict(inner=[X]),
    "names": Pair(X, ONE),
    "a dataclass": Fields("text", (X, ONE)),
    "a class of tensors": (X.as_subclass(Tagged), ONE),
    "a class of lists": Lines([X, ONE]),
    "a parameter": (torch.nn.Parameter(X), ONE),
    "integers": (torch.zeros(4, dtype=torch.int64), X),
    "sparse": (torch.eye(4).to_sparse(), ONE),
    "nested in a list": [[X, X], X],
    "images": [torch.zeros(4, 8, 8), torch.zeros(4, 5, 5)],
}


@pytest.mark.parametrize("name", MICROBATCHES)
def test_the_examples_are_the_length_of_the_first_array_that_has_one(name: str) -> None:
    lengths = [len(array) for _, array in leaves(MICROBATCHES[name]) if array.shape]
    found = examples_of(MICROBATCHES[name])
    assert found == lengths[0]
    assert type(found) is int


@pytest.mark.parametrize("microbatch", ["text", 3, None, (), [], {}, SCALAR, (SCALAR, SCALAR), ("text", 1), np.float32(3.0)])
def test_what_has_no_length_is_asked_about(microbatch: Any) -> None:
    with pytest.raises(WindowError, match="without arrays"):
        examples_of(microbatch)


def test_images_in_a_list_beside_what_they_show_are_asked_about_where_their_channels_differ() -> None:
    assert examples_of(([torch.zeros(3, 8, 8), torch.zeros(3, 5, 5)], torch.zeros(3))) == 3
    with pytest.raises(WindowError, match="nested"):
        examples_of(([torch.zeros(3, 8, 8), torch.zeros(1, 5, 5)], torch.zeros(2)))
