"""Over a short clean run the scale stays where it began: it grows only after an interval of completed attempts in a row."""

from __future__ import annotations

import torch

import truestep
from truestep.labs.asking.ask import Choice, Column, Number, Option, Tempting
from truestep.labs.chosen import linear, loss
from truestep.labs.clocks._by_torch import one_attempt
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

SCALE, INTERVAL, SHORT = 2.0**16, 2000, 50
CLEAN, LARGE = 1.0, 2.0**120
"""The second is beyond float32 once it is scaled."""
LR = 2.0**-10
WALK = (True, True, True, False, True, True, False, False, True, True, True, True)
"""Attempts with an interval of 3: whether each is finite."""
WALK_INTERVAL = 3
SCALES = "scale after each attempt, interval 3"


def shows() -> Shown:
    """A clean run by the engine and by torch; a walk with overflows; what a short clean run does not show."""
    engine = walked((True,) * SHORT, truestep.LossScale.dynamic())
    theirs = by_torch((True,) * SHORT, torch.amp.GradScaler("cpu"))
    walk = walked(WALK, truestep.LossScale.dynamic(SCALE, interval=WALK_INTERVAL))
    torchs = by_torch(WALK, torch.amp.GradScaler("cpu", init_scale=SCALE, growth_interval=WALK_INTERVAL))
    checks = (
        Check(
            what=f"smallest and largest scale of {SHORT} clean attempts, by the engine",
            expected=(SCALE, SCALE),
            measured=(min(engine), max(engine)),
            because="the engine's own defaults; 50 is under the interval of 2000: nothing lowers the scale, or has raised it yet",
        ),
        Check(
            what=f"smallest and largest scale of {SHORT} clean attempts, by torch",
            expected=(SCALE, SCALE),
            measured=(min(theirs), max(theirs)),
            because="GradScaler's own defaults, as its documentation has them: 65536, and an interval of 2000",
        ),
        Check(
            what="scale after 12 attempts with an interval of 3, by the engine",
            expected=_walk()[-1],
            measured=walk[-1],
            because="doubled after three clean ones in a row, halved at each overflow, which also begins the count anew",
        ),
        Check(what="engine and torch agree on all 12", expected=True, measured=walk == torchs, because="one rule"),
    )
    rows = tuple((number, "finite" if finite else "overflow", walk[number - 1]) for number, finite in enumerate(WALK, start=1))
    table = Table(title=SCALES, columns=("attempt", "gradient", "next loss scale"), rows=rows)
    return Shown(checks=checks, wrong=(_unchecked(),), edges=(_grown(), _reset()), tables=(table,))


def walked(finite: tuple[bool, ...], scale: truestep.LossScale) -> tuple[float, ...]:
    """The scale after each attempt by the engine, whose gradient overflows where it is not to be finite."""
    model, _ = linear((CLEAN,))
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=LR), loss=loss, scale=scale)
    return tuple(update([_batch(fine)]).next_loss_scale for fine in finite)


def by_torch(finite: tuple[bool, ...], scaler: torch.amp.GradScaler) -> tuple[float, ...]:
    """The same by torch.amp.GradScaler."""
    model, _ = linear((CLEAN,))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    return tuple(one_attempt(scaler, optimizer, loss(model, _batch(fine))) for fine in finite)


def unchecked(finite: tuple[bool, ...]) -> float:
    """The weight after a loop that scales, divides and steps, and checks nothing."""
    model, _ = linear((CLEAN,))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for fine in finite:
        optimizer.zero_grad()
        torch.autograd.backward(loss(model, _batch(fine)) * SCALE)
        assert model.weight.grad is not None
        model.weight.grad.div_(SCALE)
        optimizer.step()
    return model.weight.item()


def _walk() -> list[float]:
    """The walk by plain arithmetic."""
    scale, clean, found = SCALE, 0, []
    for finite in WALK:
        clean = clean + 1 if finite else 0
        if not finite:
            scale /= 2
        elif clean == WALK_INTERVAL:
            scale, clean = scale * 2, 0
        found.append(scale)
    return found


def _batch(finite: bool) -> torch.Tensor:
    return torch.tensor([[CLEAN if finite else LARGE]])


def _unchecked() -> Wrong:
    clean, after = unchecked((True,) * SHORT), unchecked((True, False))
    check = Check(
        what="weight of a loop without any check: 50 clean attempts, then another run with an overflow in it",
        expected=(-SHORT * LR, -float("inf")),
        measured=(clean, after),
        because="1/1024 an update, exactly; and the first infinite gradient is written into the weight",
    )
    return Wrong(
        how="test the handling of overflows by a short clean run",
        check=check,
        damage="it passes with a loop that handles none; one overflow then ends the run for good",
    )


def _grown() -> Edge:
    scale = truestep.LossScale.dynamic()
    values = []
    for _ in range(INTERVAL):
        scale = scale.after(finite=True)
        values.append(scale.value)
    return Edge(
        where="the 2000th completed attempt in a row: now it doubles",
        check=Check(
            what="scale after 1999 and after 2000",
            expected=(SCALE, 2 * SCALE),
            measured=(values[-2], values[-1]),
            because="the interval is complete",
        ),
    )


def _reset() -> Edge:
    scale = truestep.LossScale.dynamic()
    for finite in (*(True,) * (INTERVAL - 1), False, *(True,) * (INTERVAL - 1)):
        scale = scale.after(finite=finite)
    return Edge(
        where="3998 completed attempts with one overflow in the middle: no growth, for they are not in a row",
        check=Check(
            what="scale after 1999 clean, an overflow, 1999 clean",
            expected=SCALE / 2,
            measured=scale.value,
            because="the overflow halved it and began the count anew",
        ),
    )


LAB = Lab(
    name="short-clean-run",
    facts=("D6",),
    topic="clocks",
    title="A scale that stays",
    claim="With a growth interval of 2000 the loss scale stays at 65536 over a short clean run. That is no fault, and no test of "
    "overflows either.",
    source="torch.amp.GradScaler: init_scale 65536, growth_factor 2, backoff_factor 0.5, growth_interval 2000",
    shows=shows,
    after=(After(lab="without-update", why="it shows a scale that stays because nothing moves it"),),
    asks=(
        Number(
            key="stays",
            prompt="torch's defaults, 50 clean attempts. What is the loss scale?",
            answer=lambda shown: shown.measured(f"smallest and largest scale of {SHORT} clean attempts, by torch")[1],
            within=0.0,
            why="65536, where it began: 50 is under the interval of 2000.",
            tempting=(
                Tempting(
                    value=lambda _: 2 * SCALE, why="It doubles after 2000 clean attempts in a row, not at the end of a run."
                ),
                Tempting(value=lambda _: SCALE / 2, why="Only an overflow halves it."),
            ),
        ),
        Column(
            key="walk",
            prompt="Scale 65536, interval 3, factors 2 and 0.5. What is the scale after each attempt?",
            table=lambda shown: shown.table(SCALES),
            blank="next loss scale",
            within=0.0,
            why="Three clean attempts in a row double it. An overflow halves it and sets the count to 0; so does the doubling.",
        ),
        Choice(
            key="row",
            prompt="1999 clean attempts, one overflow, 1999 clean ones. Where does a scale of 65536 stand?",
            answer=lambda shown: shown.measured("scale after 1999 clean, an overflow, 1999 clean"),
            options=(
                Option(text="32768", value=SCALE / 2, why="Halved once. Neither stretch reached 2000."),
                Option(text="65536", value=SCALE, why="Tempting: 3998 clean ones should have doubled it. They are not in a row."),
                Option(text="131072", value=2 * SCALE, why="So it were, had the overflow not come."),
            ),
        ),
    ),
)
