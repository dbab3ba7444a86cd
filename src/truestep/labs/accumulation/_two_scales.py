"""Two gradients summed under two loss scales: by the engine, by torch's scaler, by hand, and by a loop that verify looks at."""

from __future__ import annotations

from collections.abc import Callable

import torch

import truestep
from truestep.labs.chosen import linear, loss

G1, G2 = 0.5, 1.0
"""The gradients of the two microbatches."""
FIRST, SECOND = 1024.0, 2048.0
SUM = G1 + G2
OVERFLOWING = (G1, 1e36, G1, G2)
"""The gradients of four microbatches; the second is infinite in float32 once it is scaled by 2048."""
LOSSES = (0.75, 0.5, 1.25, 0.5)
"""Losses of four microbatches, each the gradient of a weight of 1 too."""


def by_the_engine(count: int) -> tuple[list[truestep.Outcome], list[float]]:
    """So many windows with a scale that doubles after each, and what the optimizer got: SGD at rate 1 moves by it."""
    model, _ = linear((G1,))
    scale = truestep.LossScale.dynamic(FIRST, interval=1)
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    update = truestep.Update(model, sgd, loss=loss, loss_is="sum", weight=lambda _: 0.5, scale=scale, check_weight=False)
    outcomes, reached = [], []
    for _ in range(count):
        before = model.weight.item()
        outcomes.append(update([torch.tensor([[G1]]), torch.tensor([[G2]])]))
        reached.append(before - model.weight.item())
    return outcomes, reached


def overflowing() -> tuple[truestep.Outcome, float]:
    """A window by the engine whose second microbatch of four overflows, and where its weight, 0 before, is then."""
    model, _ = linear((G1,))
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    update = truestep.Update(model, sgd, loss=loss, scale=truestep.LossScale.dynamic(SECOND))
    return update([torch.tensor([[gradient]]) for gradient in OVERFLOWING]), model.weight.item()


def traced() -> tuple[tuple[str, float, float, float, float], ...]:
    """Of each microbatch its loss, the scale, the scaled loss, and what .grad holds after it; each loss over 4."""
    weight = torch.nn.Parameter(torch.ones(()))
    scaler = torch.amp.GradScaler("cpu", init_scale=FIRST)
    rows = []
    for number, value in enumerate(LOSSES, 1):
        mean = weight * value
        scaled = scaler.scale(mean / len(LOSSES))
        torch.autograd.backward(scaled)
        assert weight.grad is not None
        rows.append((str(number), mean.item(), scaler.get_scale(), scaled.item(), weight.grad.item()))
    return tuple(rows)


def accumulated(first: float, second: float) -> tuple[float, float]:
    """What a torch loop stores if the scaler's scale is set anew between the microbatches, and what unscale_ leaves of it."""
    model, _ = linear((G1,))
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=first)
    torch.autograd.backward(scaler.scale(loss(model, torch.tensor([[G1]]))))
    scaler.update(second)
    torch.autograd.backward(scaler.scale(loss(model, torch.tensor([[G2]]))))
    assert model.weight.grad is not None
    stored = model.weight.grad.item()
    scaler.unscale_(sgd)
    return stored, model.weight.grad.item()


def by_hand(between: Callable[[torch.Tensor], object], second: float = FIRST) -> float:
    """A loop with a scale of its own that does something to the stored gradient between its two microbatches."""
    model, _ = linear((G1,))
    torch.autograd.backward(loss(model, torch.tensor([[G1]])) * FIRST)
    assert model.weight.grad is not None
    between(model.weight.grad)
    torch.autograd.backward(loss(model, torch.tensor([[G2]])) * second)
    return (model.weight.grad / second).item()


def named() -> str:
    """What verify reads off such a loop."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=FIRST)

    def step(window: list[torch.Tensor]) -> None:
        sgd.zero_grad()
        for number, x in enumerate(window):
            if number == 1:
                scaler.update(SECOND)
            torch.autograd.backward(scaler.scale(loss_of(model, x) / len(window)))
        scaler.step(sgd)

    def loss_of(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        return torch.mean((model(x) - 1).square())

    found = truestep.verify(
        step, [list(torch.split(torch.randn(8, 3), 4))], model=model, optimizer=sgd, loss=loss_of, scale=scaler
    )
    return found.reading.kind if found.reading else "nothing"
