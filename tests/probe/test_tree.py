"""Finding arrays in whatever holds them."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from truestep.probe.tree import leaves

Pair = namedtuple("Pair", "left right")


@dataclass
class Sample:
    x: Tensor
    more: Any = None


class ModelOutput(OrderedDict):
    """Keys that are attributes too, as in the Transformers library."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class Batched(MutableMapping):
    """A mapping with a shape of its own, as in the TensorDict library."""

    shape = torch.Size([2])

    def __init__(self, **held: Tensor) -> None:
        self.held = held

    def __getitem__(self, key: str) -> Tensor:
        return self.held[key]

    def __setitem__(self, key: str, value: Tensor) -> None:
        self.held[key] = value

    def __delitem__(self, key: str) -> None:
        del self.held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


def paths(tree: object) -> list[str]:
    return [path for path, _ in leaves(tree)]


def test_every_nesting_is_searched_depth_first_with_its_path() -> None:
    x = torch.zeros(2)
    assert paths(x) == [""]
    assert paths((x, [x, {"a": x}])) == ["[0]", "[1][0]", "[1][1]['a']"]
    assert paths(Pair(x, Sample(x, (1, x)))) == ["[0]", "[1].x", "[1].more[1]"]
    assert paths(ModelOutput(loss=x, hidden=(x, None))) == ["['loss']", "['hidden'][0]"]
    assert paths(UserDict(a=x)) == ["['a']"]
    assert paths({"image": np.zeros((2, 3)), "name": ["a", "b"], "n": 3, "none": None}) == ["['image']"]


def test_a_mapping_is_searched_though_it_has_a_shape() -> None:
    assert paths(Batched(x=torch.zeros(2, 3), y=torch.zeros(2))) == ["['x']", "['y']"]


def test_a_tuple_is_searched_though_it_calls_a_part_its_shape() -> None:
    picture = namedtuple("picture", "pixels shape")
    assert paths(picture(torch.zeros(2, 3), torch.zeros(2))) == ["[0]", "[1]"]


def test_classes_and_empty_containers_hold_nothing() -> None:
    assert paths([Sample, (), {}, "text", 1.5, None]) == []


def test_a_packed_sequence_is_a_tuple() -> None:
    packed = torch.nn.utils.rnn.pack_sequence([torch.zeros(3), torch.zeros(2)])
    assert paths(packed)[:2] == ["[0]", "[1]"]
