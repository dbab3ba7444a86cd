"""A schedule that ticks on every attempt is not one that ticks on completed updates: which is right is declared."""

from __future__ import annotations

import math

import torch
from torch.optim.lr_scheduler import LambdaLR

import truestep
from truestep.labs.asking.ask import Choice, Column, Number, Open, Option, Tempting
from truestep.labs.chosen import linear, loss
from truestep.labs.clocks._by_torch import one_attempt
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

RATE, ATTEMPTS = 1.0, 8
SKIPPED = (2, 3, 6)
"""The attempts, counted from 1, whose gradient overflows."""
GRADIENT, LARGE = 1.0, 1e38
"""Beyond float32 once it is scaled by 4 or more, and within it unscaled."""
SCALE = 2.0**16
CLOCKS: dict[str, str | truestep.Every] = {
    "completed": "completed",
    "any attempt": "attempt",
    "every 2 examples": truestep.Every(examples=2),
}
RATES = "learning rate at each attempt, by clock (it halves with each tick)"


def shows() -> Shown:
    """One sequence of attempts under three clocks."""
    runs = {name: rates(clock) for name, clock in CLOCKS.items()}
    ticks = {"completed": _completed_before, "any attempt": lambda before: before, "every 2 examples": _pairs_before}
    checks = tuple(
        Check(
            what=f"ticks before each attempt, clock: {name}",
            expected=tuple(ticks[name](before) for before in range(ATTEMPTS)),
            measured=halvings(run),
            because=why,
        )
        for (name, run), why in zip(runs.items(), _WHY, strict=True)
    )
    rows = tuple(
        (attempt, "skipped" if attempt in SKIPPED else "completed", *(runs[name][attempt - 1] for name in CLOCKS))
        for attempt in range(1, ATTEMPTS + 1)
    )
    table = Table(title=RATES, columns=("attempt", "outcome", *CLOCKS), rows=rows)
    edges = (_no_skip(), _torchs_scale())
    return Shown(checks=checks, wrong=(_usual_loop(runs["completed"]), _engines_scale()), edges=edges, tables=(table,))


_WHY = (
    "as many as were completed before it; read off the learning rate, which halves with each",
    "k - 1 before attempt k, skipped ones included",
    "one whenever two more examples have been applied, and each completed update applies one here",
)


def rates(clock: str | truestep.Every, *, skipped: tuple[int, ...] = SKIPPED) -> tuple[float, ...]:
    """The learning rate of each attempt by the engine, halved with each tick of that clock."""
    model, _ = linear((GRADIENT,))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    update = truestep.Update(
        model,
        optimizer,
        loss=loss,
        scale=truestep.LossScale.dynamic(SCALE),
        scheduler=LambdaLR(optimizer, lambda tick: 0.5**tick),
        clock=clock,
    )
    return tuple(update([_batch(attempt, skipped)]).lr[0] for attempt in range(1, ATTEMPTS + 1))


def halvings(rates: tuple[float, ...]) -> tuple[int, ...]:
    """The ticks that each rate tells of."""
    return tuple(round(-math.log2(rate / RATE)) for rate in rates)


def by_hand(*, unless_the_scale_fell: bool = False) -> tuple[float, ...]:
    """The learning rate of each attempt in the usual loop, whose last line is scheduler.step(), or in its usual repair."""
    model, _ = linear((GRADIENT,))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    scheduler, scaler = LambdaLR(optimizer, lambda tick: 0.5**tick), torch.amp.GradScaler("cpu", init_scale=SCALE)
    found = []
    for number in range(1, ATTEMPTS + 1):
        found.append(optimizer.param_groups[0]["lr"])
        before = scaler.get_scale()
        after = one_attempt(scaler, optimizer, loss(model, _batch(number, SKIPPED)))
        if not (unless_the_scale_fell and after < before):
            scheduler.step()
    return tuple(found)


def _batch(attempt: int, skipped: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor([[LARGE if attempt in skipped else GRADIENT]])


def _completed_before(before: int) -> int:
    return before - sum(attempt <= before for attempt in SKIPPED)


def _pairs_before(before: int) -> int:
    return _completed_before(before) // 2


def _usual_loop(completed: tuple[float, ...]) -> Wrong:
    found = by_hand()
    check = Check(
        what="ticks before each attempt of a loop that ends with scheduler.step()",
        expected=tuple(range(ATTEMPTS)),
        measured=halvings(found),
        because="the line runs in every round, whether or not scaler.step() has stepped",
    )
    return Wrong(
        how="write scheduler.step() after scaler.update(), and mean updates",
        check=check,
        damage=f"with 3 of 8 skipped the last attempt runs at {found[-1]:g}, where ticks on updates give {completed[-1]:g}",
    )


def _no_skip() -> Edge:
    clean = rates("attempt", skipped=())
    return Edge(
        where="no attempt is skipped: the two clocks cannot be told apart, and so no clean run tests which of them you have",
        check=Check(
            what="learning rates on attempts equal those on completed updates",
            expected=True,
            measured=clean == rates("completed", skipped=()),
            because="each attempt is a completed update",
        ),
    )


def _torchs_scale() -> Edge:
    return Edge(
        where="the usual repair, a tick only where the scale has not fallen: it serves as long as every skip lowers the scale",
        check=Check(
            what="ticks before each attempt of a loop with GradScaler that asks whether the scale fell",
            expected=tuple(map(_completed_before, range(ATTEMPTS))),
            measured=halvings(by_hand(unless_the_scale_fell=True)),
            because="GradScaler's scale falls with every skip, whatever the reason, until it has reached 0",
        ),
    )


def _engines_scale() -> Wrong:
    """The repair asks of the scale what the outcome says: a skip that no scale cures leaves the scale alone."""
    model, _ = linear((GRADIENT,))
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    update = truestep.Update(model, optimizer, loss=loss, scale=truestep.LossScale.dynamic(SCALE))
    outcomes = [update([torch.tensor([[value]])]) for value in (GRADIENT, LARGE, math.nan)]
    completed = sum(one.completed for one in outcomes)
    asked = sum(not one.next_loss_scale < one.loss_scale for one in outcomes)
    check = Check(
        what="a clean attempt, an overflow, a NaN in the input: updates, and ticks by a scale that has not fallen",
        expected=(1, 2),
        measured=(completed, asked),
        because="the overflow halves the scale; the NaN is skipped too, and no smaller scale would help",
    )
    return Wrong(
        how="take the scale for the outcome, where a scale moves only if that can help",
        check=check,
        damage=f"{asked - completed} tick too many of {len(outcomes)} attempts; the outcome says which were completed",
    )


LAB = Lab(
    name="declared-clock",
    facts=("D3",),
    topic="clocks",
    title="What a tick means",
    claim="A scheduler that ticks on every attempt differs from one that ticks on completed updates as soon as an attempt is "
    "skipped. Either can be meant; which one is declared, never assumed.",
    source="torch.optim.lr_scheduler, which warns where a scheduler ticks before the optimizer's first step; "
    "torch.amp.GradScaler.step, which may skip that step",
    shows=shows,
    after=(After(lab="ninety", why="it tells attempts from completed updates"),),
    asks=(
        Number(
            key="last",
            prompt="The learning rate halves with each tick, from 1. Attempts 2, 3 and 6 of 8 are skipped. What is it at attempt "
            "8, if completed updates tick?",
            answer=lambda shown: shown.table(RATES).column("completed")[-1],
            within=0.0,
            why="Before attempt 8 four were completed (1, 4, 5, 7): 1/16 = 0.0625.",
            tempting=(
                Tempting(
                    value=lambda shown: shown.table(RATES).column("any attempt")[-1],
                    why="That is 1/2^7: each attempt has ticked, skipped ones too.",
                ),
                Tempting(
                    value=lambda shown: shown.table(RATES).column("completed")[-1] / 2,
                    why="One too many: attempt 8 runs before its own tick.",
                ),
            ),
        ),
        Column(
            key="attempts",
            prompt="The same eight attempts, and the clock ticks on any attempt. What is the learning rate at each?",
            table=lambda shown: shown.table(RATES),
            blank="any attempt",
            within=0.0,
            why="k - 1 halvings at attempt k. Outcomes play no part.",
        ),
        Choice(
            key="test",
            prompt="Your test trains ten clean updates and compares the learning rates with the schedule. Which clock passes it?",
            answer=lambda shown: shown.measured("learning rates on attempts equal those on completed updates"),
            options=(
                Option(text="both: it cannot tell", value=True, why="Without a skip each attempt is a completed update."),
                Option(
                    text="only the one you meant",
                    value=False,
                    why="Tempting, since it did pass. A test of the clock needs a skipped attempt in it.",
                ),
            ),
        ),
        Open(
            key="decide",
            prompt="Your schedule warms up over 2000 steps. Of the first 2000 attempts 40 % are skipped, because a damaged part "
            "of the data holds NaN. What has to be decided, and what would you declare?",
            rubric=(
                "What a 'step' of the 2000 is: an attempt, a completed update, or so many examples applied",
                "What each does: on attempts, the warm-up ends after 1200 updates",
                "What the budget counts has to fit: a schedule on updates does not end in a budget of attempts",
                "The choice stands in the record, for the runs that are compared with it",
            ),
            strong="Whether a step is an attempt or a completed update. Warm-up protects the optimizer's moments, which only "
            "updates build, so I declare completed updates, and let the budget count the same.",
            weak="Nothing: the scheduler has its step count.",
            follow_up="When would a tick on attempts be the right declaration?",
        ),
    ),
)
