"""Microbatches laid end to end, or a word why not."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from truestep.verification.subject_join import Unequal, full_of, joined, mapped


class Pair(NamedTuple):
    rows: torch.Tensor
    count: int


@dataclass(frozen=True)
class Batch:
    rows: torch.Tensor
    kind: str


def test_tensors_are_laid_end_to_end_in_whatever_holds_them():
    a, b = torch.ones(2, 3), torch.zeros(1, 3)
    rows = torch.cat([a, b])
    assert torch.equal(joined([a, b]), rows)
    assert torch.equal(joined([(a, [a]), (b, [b])])[1][0], rows)
    assert torch.equal(joined([{"x": {"y": a}}, {"x": {"y": b}}])["x"]["y"], rows)
    assert torch.equal(joined([Batch(a, "text"), Batch(b, "text")]).rows, rows)


def test_counts_add_up_and_what_is_equal_is_kept():
    found = joined([Pair(torch.ones(2, 1), 7), Pair(torch.ones(3, 1), 4)])
    assert isinstance(found, Pair)
    assert (len(found.rows), found.count) == (5, 11)
    assert joined([(None, "en", True, 0.5), (None, "en", True, 0.5)]) == (None, "en", True, 0.5)
    assert joined([torch.tensor(3), torch.tensor(4)]).item() == 7


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (torch.ones(2, 3), torch.ones(2, 4), "beyond the first dimension"),
        ("en", "de", "str"),
        ({"a": 1}, {"b": 1}, "different keys"),
        ((1, 2), (1, 2, 3), "different lengths"),
        (torch.ones(1), [1], "different kinds"),
        (torch.tensor(0.5), torch.tensor(0.6), "single numbers"),
        (np.ones((2, 3)), np.ones((2, 3)), "only tensors are laid end to end"),
        (np.ones(1), np.ones(1), "only tensors are laid end to end"),
        (pack_sequence([torch.ones(2)]), pack_sequence([torch.ones(2)]), "packed sequences"),
    ],
)
def test_what_cannot_be_joined_says_why(one, other, why):
    with pytest.raises(Unequal, match=why):
        joined([one, other])


def test_a_window_of_one_is_its_own_full_batch():
    only = object()
    assert joined([only]) is only


def test_every_tensor_is_changed_and_the_kinds_stay():
    found = mapped({"a": Pair(torch.ones(1), 3), "b": [torch.ones(1), "x"]}, lambda tensor: tensor * 2)
    assert found["a"] == Pair(torch.tensor([2.0]), 3)
    assert found["b"][1] == "x"


@pytest.mark.parametrize("number", [128, torch.tensor(128)])
def test_that_whole_numbers_were_added_is_told(number):
    assert full_of([{"x": torch.ones(2), "length": number}] * 2).added
    assert full_of([Pair(torch.ones(2, 1), number)] * 2).added
    assert not full_of([{"x": torch.ones(2), "length": number}]).added
    assert not full_of([{"x": torch.ones(2), "flag": True, "share": torch.tensor(0.5)}] * 2).added
