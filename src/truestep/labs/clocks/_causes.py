"""What makes an attempt not finite, cause by cause: five attempts at each by the engine and by torch's scaler."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import truestep
from truestep.labs.clocks._by_torch import one_attempt

SCALE, ATTEMPTS = 2.0**16, 5
Loss = Callable[[nn.Module, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A cause: what is trained, and what the engine has to call it."""

    weight: float = 1.0
    value: float
    loss: Loss
    policy: str = "fp32"
    rate: float = 0.0
    reason: truestep.Reason
    why: str
    cured: bool = False


def mean(model: nn.Module, x: Tensor) -> Tensor:
    """The mean output, in float32."""
    return torch.mean(model(x).float())


def root(model: nn.Module, x: Tensor) -> Tensor:
    """A length: its gradient at 0 is 0 / 0."""
    return torch.sqrt(torch.sum(model(x).float().square()))


def roots(model: nn.Module, x: Tensor) -> Tensor:
    """The mean root, of a negative number here."""
    return torch.mean(model(x).float().sqrt())


def logarithm(model: nn.Module, x: Tensor) -> Tensor:
    """The mean logarithm: of a negative number NaN, with the finite derivative 1 / x."""
    return torch.mean(model(x).float().log())


def square(model: nn.Module, x: Tensor) -> Tensor:
    """The mean square."""
    return torch.mean(model(x).float().square())


CASES = {
    "a NaN in the input": Case(
        value=math.nan, loss=mean, reason=truestep.Reason.INPUT, why="NaN is in what was read; NaN times any scale is NaN"
    ),
    "the root's gradient at 0": Case(
        value=0.0, loss=root, reason=truestep.Reason.UNDEFINED, why="the root of 0 is 0, its derivative 0 / 0 at any scale"
    ),
    "the root of -1": Case(
        value=-1.0, loss=roots, reason=truestep.Reason.LOSS, why="an input of -1 is finite, its root NaN before any scale"
    ),
    "an output beyond 65504 in float16": Case(
        weight=400.0,
        value=400.0,
        loss=square,
        policy="fp16",
        reason=truestep.Reason.FORWARD,
        why="400 x 400 = 160000 is beyond 65504, and the forward has not met the scale",
    ),
    "a learning rate of 1e7": Case(
        value=0.25,
        loss=square,
        policy="fp16",
        rate=1e7,
        reason=truestep.Reason.FORWARD,
        why="1 - 1e7 / 8 is beyond 65504 as soon as the forward casts the weight, whatever the scale",
    ),
    "a scale that is too large": Case(
        value=2.0**112,
        loss=mean,
        reason=truestep.Reason.BACKWARD,
        why="2^112 x 2^16 leaves float32, 2^112 x 2^15 does not",
        cured=True,
    ),
}
"""The last is what loss scaling is for."""


def by_the_engine(case: Case, *, policy: str | None = None) -> list[truestep.Outcome]:
    """Five attempts at the same microbatch."""
    model, x = made(case)
    optimizer = torch.optim.SGD(model.parameters(), lr=case.rate)
    scale = truestep.LossScale.dynamic(SCALE)
    update = truestep.Update(model, optimizer, loss=case.loss, policy=policy or case.policy, scale=scale, check_weight=False)
    return [update([x]) for _ in range(ATTEMPTS)]


def by_torch(case: Case) -> float:
    """The scale that torch's scaler is left with after the same five attempts."""
    model, x = made(case)
    optimizer = torch.optim.SGD(model.parameters(), lr=case.rate)
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
    for _ in range(ATTEMPTS):
        with torch.autocast("cpu", dtype=torch.float16, enabled=case.policy == "fp16"):
            loss = case.loss(model, x)
        one_attempt(scaler, optimizer, loss)
    return scaler.get_scale()


def made(case: Case) -> tuple[nn.Linear, Tensor]:
    """The one weight, and the one input."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, case.weight)
    return model, torch.tensor([[case.value]])
