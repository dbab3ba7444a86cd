"""Whose failure it is: a task's own code is told with its line, a fault of truestep's stays one, and what is refused passes."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import truestep
from truestep.errors import LossError, PolicyError, RunError, UsageError
from truestep.run.their import place_in, told_as_theirs
from truestep.tasks import Logistic

Measure = Callable[[Any], object]


def raising(error: BaseException) -> Callable[..., Any]:
    def broken(*_: Any) -> Any:
        raise error

    return broken


class Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        raise ZeroDivisionError("in a backward of its own")


def task_with(**methods: Callable[..., Any]) -> Any:
    return type("Own", (Logistic,), methods)()


def verified(task: Any, **options: Any) -> object:
    return truestep.verify(task, attempts=1, device="cpu", **{"policy": "bf16", **options})


@pytest.mark.parametrize("error", [KeyError("rows"), ValueError("no such number"), SystemExit(5)])
@pytest.mark.parametrize("method", ["splits", "model", "optimizer", "microbatch", "loss"])
def test_what_a_tasks_code_raises_is_its_own_and_has_its_line(method: str, error: BaseException) -> None:
    with pytest.raises(RunError, match=rf"test_their\.py:\d+ in broken: {type(error).__name__}") as caught:
        verified(task_with(**{method: lambda self, *_: raising(error)()}))
    assert caught.value.__cause__ is error
    assert "the task's own code failed while it was verified" in (caught.value.hint or "")


def test_the_line_of_a_backward_of_its_own_is_told() -> None:
    with pytest.raises(RunError, match=r"test_their\.py:\d+ in backward: ZeroDivisionError"):
        verified(task_with(loss=lambda self, model, m: Backward.apply(Logistic.loss(self, model, m))))


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda self, model, m: 0.5, "a float"),
        (lambda self, model, m: None, "a NoneType"),
        (lambda self, model, m: model(m[0]), r"the shape \(128, 1\)"),
        (lambda self, model, m: Logistic.loss(self, model, m).detach(), "no graph"),
    ],
)
def test_a_loss_that_is_none_points_at_the_line_that_defines_it(loss: Any, found: str) -> None:
    with pytest.raises(LossError, match=rf"test_their\.py:{loss.__code__.co_firstlineno}: the loss .*{found}"):
        verified(task_with(loss=loss))


OURS = """
def measured(raise_it):
    with told_as_theirs(Logistic(), "fp32", failed="while it was tried"):
        if raise_it is not None:
            raise raise_it
        {}["ours"]
"""


@pytest.mark.parametrize("error", [AssertionError("ours"), UsageError("nothing to see"), ZeroDivisionError(), None])
def test_a_fault_of_ours_stays_one_and_a_refusal_keeps_its_words(error: Exception | None) -> None:
    names: dict[str, Any] = {"told_as_theirs": told_as_theirs, "Logistic": Logistic}
    exec(compile(OURS, truestep.__file__, "exec"), names)  # as if it stood in truestep
    with pytest.raises(KeyError if error is None else type(error)) as caught:
        names["measured"](error)
    assert error is None or caught.value is error


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(2, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.lstm(rows[:, None])[0]
        out: torch.Tensor = self.head(states[:, -1])
        return out


@pytest.mark.parametrize("words", ["\"lstm\" not implemented for 'Half'", "could not create a primitive descriptor for the LSTM"])
def test_a_kernel_that_is_not_there_is_told_as_that(words: str) -> None:
    def loss(self: Any, model: Any, microbatch: Any) -> Any:
        if torch.is_autocast_enabled("cpu"):
            raise RuntimeError(words)
        return Logistic.loss(self, model, microbatch)

    with pytest.raises(PolicyError, match=r"test_their\.py:\d+ in loss: an operation has no float16 kernel") as caught:
        verified(task_with(loss=loss), policy="fp16")
    assert "bf16" in (caught.value.hint or "")


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
def test_a_kernel_that_whole_numbers_lack_is_told_as_the_tasks_own_fault(policy: str) -> None:
    def loss(self: Any, model: Any, microbatch: Any) -> Any:
        return nn.functional.cross_entropy(microbatch[0].long(), microbatch[1].long()) + Logistic.loss(self, model, microbatch)

    with pytest.raises(RunError, match=r"test_their\.py:\d+ in loss: NotImplementedError: .* not implemented for 'Long'"):
        verified(task_with(loss=loss), policy=policy)


@pytest.mark.parametrize(
    ("folder", "whose"),
    [
        ("/home/me/.local/lib/python3.12/site-packages/torch/nn", None),  # of another interpreter, too
        ("/usr/lib/python3/dist-packages/torch/nn", None),
        (f"{Path(truestep.__file__).parent}/run", None),
        (f"{Path(truestep.__file__).parent}-of-mine", "theirs"),
        ("/home/me/src", "theirs"),
    ],
)
def test_whose_code_failed_goes_by_whole_folders_and_every_place_that_packages_are_installed_in(
    folder: str, whose: str | None
) -> None:
    file, names = f"{folder}/part.py", {"error": ValueError("somewhere")}
    with pytest.raises(ValueError, match="somewhere") as caught:
        exec(compile("raise error", file, "exec"), names)
    frames = caught.value.__traceback__
    caught.value.__traceback__ = None if frames is None else frames.tb_next  # without the line of this test
    assert place_in(caught.value, Logistic()) == (None if whose is None else f"{file}:1 in <module>")


def test_an_lstm_in_float16_on_a_processor_works_or_says_that_it_cannot() -> None:
    found = ""
    try:
        truestep.verify(task_with(model=lambda self: Recurrent()), policy="fp16", attempts=1, device="cpu")
    except PolicyError as error:
        found = error.summary
    assert not found or re.search(r"test_their\.py:\d+ in forward: an operation has no float16 kernel", found)
