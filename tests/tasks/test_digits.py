"""The digits are what they are said to be. Whether a run reaches the target is tested with the run."""

import importlib.util
from importlib.machinery import ModuleSpec

import pytest
import torch

from tests import ready
from truestep.errors import TaskError
from truestep.tasks import Digits
from truestep.tasks import digits as module


def test_the_data_are_those_that_the_target_was_found_on() -> None:
    assert Digits().digest() == "dcb63dd9663036892ec80d8530717c08d7a9d8b65889c313cff3fbccc1997413"


def test_the_splits_hold_every_image_once() -> None:
    splits = Digits().splits()
    parts = [splits.train.tensors, splits.validation.tensors, splits.test.tensors]
    assert [len(labels) for _, labels in parts] == [1197, 300, 300]
    images, labels = module._data("digits")
    drawn = torch.cat([torch.cat([x, y.unsqueeze(1)], dim=1) for x, y in parts])
    held = torch.cat([images, labels.unsqueeze(1)], dim=1)
    # no two of the images are equal, so equal sets of equal size mean that each is held once
    assert {tuple(row) for row in drawn.tolist()} == {tuple(row) for row in held.tolist()}
    assert len({tuple(row) for row in held.tolist()}) == 1797


def test_pixels_lie_between_0_and_1_and_reach_both() -> None:
    images, _ = module._data("digits")
    assert (images.min().item(), images.max().item()) == (0.0, 1.0)


def test_an_epoch_ends_in_a_short_window() -> None:
    assert 1197 % Digits.batch == 45


def test_quality_is_the_share_of_right_answers() -> None:
    task = Digits()
    splits = task.splits()

    class Knows(torch.nn.Module):
        def __init__(self, wrong: int) -> None:
            super().__init__()
            self.anchor = torch.nn.Parameter(torch.zeros(1))
            labels = splits.test.tensors[1].clone()
            labels[:wrong] = (labels[:wrong] + 1) % 10
            self.answer = torch.nn.functional.one_hot(labels, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.answer

    assert task.quality(Knows(0), splits.test) == 1.0
    assert task.quality(Knows(9), splits.test) == 0.97


def found_as(monkeypatch: pytest.MonkeyPatch, found: ModuleSpec | None) -> TaskError:
    """What is said where scikit-learn is found like this."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    module._data.cache_clear()
    with pytest.raises(TaskError) as caught:
        Digits().splits()
    return caught.value


def test_a_missing_scikit_learn_is_told_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    error = found_as(monkeypatch, None)
    assert "needs scikit-learn" in error.summary
    assert error.hint == 'pip install "truestep[tasks]"'


def test_a_scikit_learn_that_keeps_the_digits_elsewhere_is_told_with_a_version_that_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = found_as(monkeypatch, ModuleSpec("sklearn", None, origin="/nowhere/sklearn/__init__.py"))
    assert "/nowhere/sklearn/datasets/data/digits.csv.gz" in error.summary
    assert str(error.hint).endswith("pip install 'scikit-learn==1.9.*'")


def test_the_digits_are_read_without_importing_scikit_learn() -> None:
    code = "import sys; from truestep.tasks import Digits; Digits().splits(); print('sklearn' in sys.modules)"
    assert ready.run("-c", code).stdout == "False\n"
