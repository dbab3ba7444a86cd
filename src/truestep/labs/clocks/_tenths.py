"""A hundred windows of which every tenth overflows: by the engine, and by the usual loop."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import truestep
from truestep.labs.chosen import linear, loss
from truestep.labs.clocks._by_torch import one_attempt
from truestep.ledger.records import attempt_record, header_record
from truestep.ledger.summary import Summary, summarize

ATTEMPTS, EVERY, MICROBATCHES, TOKENS = 100, 10, 2, 5
"""Every tenth window overflows; a window has two microbatches of one example and five tokens each."""
GRADIENT, LARGE = 2.0**-4, 2000.0
"""Of the usual window, exact in float16, and of one that overflows float16 at every scale from 65536 down to 128."""
SCALE = 2.0**16


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A run: its outcomes, and how far its weight went, in usual updates."""

    outcomes: list[truestep.Outcome]
    moved: float

    def summary(self) -> Summary:
        """What its lines add up to, as a ledger's file would."""
        header = header_record(run_id="lab", created="", environment={}, policy=None, protocol_hash=None)
        return summarize([header, *(attempt_record(outcome) | {"waste": False} for outcome in self.outcomes)])


def trained(*, overflows: bool, attempts: int = ATTEMPTS) -> Trained:
    """Windows in float16 by the engine, of which every tenth overflows or none does."""
    model, _ = linear((GRADIENT,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    update = truestep.Update(
        model,
        optimizer,
        loss=loss,
        policy="fp16",
        scale=truestep.LossScale.dynamic(SCALE),
        scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0),
        tokens=lambda _: TOKENS,
    )
    outcomes = [update(window(number, overflows=overflows)) for number in range(1, attempts + 1)]
    return Trained(outcomes=outcomes, moved=distance(model))


def distance(model: torch.nn.Module) -> float:
    """How far the one weight went from 0, in usual updates."""
    (weight,) = model.parameters()
    return -weight.item() / GRADIENT


def window(number: int, *, overflows: bool) -> list[torch.Tensor]:
    value = LARGE if overflows and number % EVERY == 0 else GRADIENT
    return [torch.tensor([[value]])] * MICROBATCHES


def rounds() -> tuple[int, float]:
    """The usual loop, which counts its own rounds: that count, and how far its weight went, in usual updates."""
    model, _ = linear((GRADIENT,))
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=1.0), torch.amp.GradScaler("cpu", init_scale=SCALE)
    step = 0
    for number in range(1, ATTEMPTS + 1):
        with torch.autocast("cpu", dtype=torch.float16):
            means = [loss(model, x).float() / MICROBATCHES for x in window(number, overflows=True)]
        one_attempt(scaler, optimizer, *means)
        step += 1
    return step, distance(model)
