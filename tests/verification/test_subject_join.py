"""Microbatches laid end to end, or a word why not."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from truestep.verification.subject import Full
from truestep.verification.subject_join import Unequal, full_of, joined, mapped, mark_of


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


LEAVES = {
    "numbers": torch.arange(6.0).view(2, 3),
    "flags": torch.tensor([True, False]),
    "narrow": torch.ones(2, dtype=torch.bfloat16),
    "complex": torch.ones(2, dtype=torch.complex64),
    "conjugate": torch.tensor([1j, 2.0]).conj(),
    "turned": torch.arange(6.0).view(2, 3).T,
    "sparse": torch.eye(2).to_sparse(),
    "alone": torch.tensor(3),
    "none": torch.zeros(0, 2),
    "takes a gradient": torch.ones(2, requires_grad=True),
}


@pytest.mark.parametrize("name", LEAVES)
def test_a_window_has_the_mark_of_its_copy_and_no_others(name):
    leaf, number = LEAVES[name], torch.tensor(1)
    other = ~leaf if name == "flags" else leaf * 2
    one, copied, changed = (mark_of(Full([(each, number)], None, "no")) for each in (leaf, leaf.detach().clone(), other))
    assert one == copied
    assert (one == changed) == (name == "none")


def test_equal_examples_have_another_mark_where_they_are_split_otherwise_or_come_in_another_order():
    rows = torch.arange(12.0).view(4, 3)
    splits = [rows.split(2), rows.split([1, 3]), rows.flip(0).split(2), [rows]]
    assert len({mark_of(full_of([(part,) for part in split])) for split in splits}) == len(splits)


def test_windows_without_tensors_are_the_same_as_themselves_alone():
    one, other = [[object()], [object()]]
    assert mark_of(full_of(one)) == mark_of(full_of(one)) != mark_of(full_of(other))
