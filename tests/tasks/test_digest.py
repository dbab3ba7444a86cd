"""Equal data have one digest, different data have others, and what has no stable form has none."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset

from truestep.errors import TaskError
from truestep.tasks import Digits, Splits
from truestep.tasks.digest import digest

DIFFERENT = [
    None,
    0,
    0.0,
    -0.0,
    False,
    "0",
    b"0",
    0j,
    [],
    [[]],
    [0, 1],
    [1, 0],
    [[0], 1],
    [[0, 1]],
    {"a": 1},
    {"a": 2},
    {"b": 1},
    "ab",
    ["a", "b"],
    torch.tensor(0),
    torch.tensor([0]),
    torch.tensor([[0]]),
    torch.tensor([0.0]),
    torch.tensor([0.0, 0.0]),
    torch.tensor([0.0], dtype=torch.bfloat16),
    torch.tensor([0.0], dtype=torch.float16),
    torch.tensor([False]),
    torch.zeros(0),
    torch.zeros(0, 2),
    np.zeros(2),
    np.zeros(2, dtype=np.float32),
    np.array(["a", "b"]),
    np.array(["a", None], dtype=object),
    float("nan"),
]


def test_no_two_different_values_share_a_digest() -> None:
    assert len({digest(value) for value in DIFFERENT}) == len(DIFFERENT)


def test_equal_values_share_one_whatever_their_layout() -> None:
    matrix = torch.arange(6.0).reshape(2, 3)
    assert digest(matrix) == digest(matrix.t().contiguous().t()) == digest(matrix.clone().requires_grad_())
    assert digest([1, "a"]) == digest((1, "a")) == digest(iter([1, "a"]))
    assert digest(np.arange(6).reshape(2, 3)) == digest(np.asfortranarray(np.arange(6).reshape(2, 3)))


def test_what_has_no_stable_form_is_refused() -> None:
    with pytest.raises(TaskError, match="a object has no digest"):
        digest([object()])


class Listed(Dataset[tuple[Tensor, int]]):
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        if index >= self.size:
            raise RuntimeError("read beyond its length")
        return torch.full((2,), float(index)), index


class WithItems(Digits):
    def __init__(self, size: int) -> None:
        self.size = size

    def splits(self) -> Splits:
        return Splits(train=Listed(self.size), validation=Listed(2), test=Listed(2))


def test_a_tasks_digest_reads_every_item_of_every_split_once_each() -> None:
    assert WithItems(3).digest() == WithItems(3).digest() != WithItems(4).digest()


def test_moving_an_example_to_another_split_changes_the_digest() -> None:
    class Moved(Digits):
        def splits(self) -> Splits:
            return Splits(train=Listed(2), validation=Listed(3), test=Listed(2))

    assert Moved().digest() != WithItems(3).digest()


def test_items_are_collated_and_tensors_sliced() -> None:
    images, numbers = WithItems(3).microbatch(Listed(3), torch.tensor([2, 0]))
    assert images.tolist() == [[2.0, 2.0], [0.0, 0.0]]
    assert numbers.tolist() == [2, 0]
    (sliced,) = WithItems(3).microbatch(TensorDataset(torch.arange(5)), torch.tensor([4, 1]))
    assert sliced.tolist() == [4, 1]
