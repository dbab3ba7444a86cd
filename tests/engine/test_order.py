"""The order of one effective update, seen by recording what is called."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, poisoned
from truestep.engine import store, work
from truestep.engine.clock import Schedule


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the stages, in the order in which they happen."""
    happened: list[str] = []

    def record(owner: object, name: str, stage: str) -> None:
        real = getattr(owner, name)

        def recording(*args: object, **kwargs: object) -> object:
            happened.append(stage)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, recording)

    record(store, "clear", "zero")
    record(torch.autocast, "__enter__", "autocast")
    record(torch.autograd, "backward", "backward")
    record(work, "judge", "unscale and check")
    record(store, "step", "step")
    record(Schedule, "tick", "clock")
    record(truestep.ClipNorm, "__call__", "clip")
    record(truestep.LossScale, "after", "scale")
    return happened


def run(data: tuple[Tensor, Tensor], trace: list[str], policy: str) -> list[str]:
    model: nn.Module = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    one = truestep.Update(model, optimizer, loss=cross_entropy, policy=policy, clip=truestep.ClipNorm(1.0))
    trace.clear()
    one([batch(2), data])
    return trace


FORWARDS = ["zero", "autocast", "backward", "autocast", "backward", "unscale and check"]


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
def test_zero_forward_backward_forward_backward_unscale_check_clip_step_scale_clock(trace: list[str], policy: str) -> None:
    assert run(batch(2), trace, policy) == [*FORWARDS, "clip", "step", "scale", "clock"]


@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16"])
def test_a_skipped_attempt_neither_clips_nor_steps_nor_moves_the_scale(trace: list[str], policy: str) -> None:
    happened = run(poisoned(batch(2)), trace, policy)
    diagnosis = happened[len(FORWARDS) : -2]  # the forwards, run again
    assert happened == [*FORWARDS, *diagnosis, "zero", "clock"]
    assert set(diagnosis) <= {"autocast"}


def test_the_forward_is_inside_autocast_and_the_backward_outside() -> None:
    seen: list[bool] = []

    class Watching(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            seen.append(torch.is_autocast_enabled("cpu"))
            return x.clone()

        @staticmethod
        def backward(ctx, grad: Tensor) -> Tensor:
            seen.append(torch.is_autocast_enabled("cpu"))
            return grad

    model = mlp()
    one = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        loss=lambda model, data: nn.functional.cross_entropy(Watching.apply(model(data[0])), data[1]),
        policy="bf16",
    )
    one([batch(2)])
    assert seen == [True, False]
