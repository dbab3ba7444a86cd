"""Within a window the loss scale stays what it is: one division cannot take two scales out."""

from __future__ import annotations

from collections.abc import Callable

import torch

import truestep
from truestep.labs.asking.ask import Choice, Number, Open, Option, Tempting
from truestep.labs.chosen import linear, loss
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

G1, G2 = 0.5, 1.0
"""The gradients of the two microbatches."""
FIRST, SECOND = 1024.0, 2048.0
SUM = G1 + G2
WINDOWS = "two windows by the engine, its scale doubling after each"
SUMMED = "what one division leaves of 0.5 and 1"


def shows() -> Shown:
    """The engine with a scale that moves after every window, and loops whose scale moves inside one."""
    outcomes, reached = by_the_engine(2)
    checks = (
        Check(
            what="gradients at the optimizer, two windows by the engine",
            expected=(SUM, SUM),
            measured=tuple(reached),
            because="the scale is the same for both microbatches of a window, and a power of two: it divides out to the bit",
        ),
        Check(
            what="loss scales of the two windows",
            expected=(FIRST, SECOND),
            measured=tuple(outcome.loss_scale for outcome in outcomes),
            because="it moves, for its interval is 1, and only between windows",
        ),
    )
    rows = tuple(
        (number + 1, out.loss_scale, got, out.next_loss_scale)
        for number, (out, got) in enumerate(zip(outcomes, reached, strict=True))
    )
    table = Table(title=WINDOWS, columns=("window", "scale of both backwards", "gradient", "scale after it"), rows=rows)
    pairs = ((FIRST, FIRST), (FIRST, SECOND), (SECOND, FIRST))
    sums = Table(
        title=SUMMED,
        columns=("first scale", "second scale", "stored", "divided by the second"),
        rows=tuple((one, two, *accumulated(one, two)) for one, two in pairs),
    )
    return Shown(
        checks=checks,
        wrong=(_grown(), _shrunk(), _named(), _unscaled_inside()),
        edges=(_converted(),),
        tables=(table, sums),
    )


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


def _grown() -> Wrong:
    reached = accumulated(FIRST, SECOND)[1]
    check = Check(
        what="the scale doubles inside the window",
        expected=FIRST / SECOND * G1 + G2,
        measured=reached,
        because="(1024 x 0.5 + 2048 x 1) / 2048: the first microbatch counts half",
    )
    return Wrong(how="scaler.update(2048.0) between two microbatches", check=check, damage=f"{reached:g} in place of {SUM:g}")


def _shrunk() -> Wrong:
    reached = accumulated(SECOND, FIRST)[1]
    check = Check(
        what="the scale halves inside the window, as after an overflow",
        expected=SECOND / FIRST * G1 + G2,
        measured=reached,
        because="(2048 x 0.5 + 1024 x 1) / 1024: the first microbatch counts twice",
    )
    return Wrong(how="back off in the middle and go on accumulating", check=check, damage=f"{reached:g} in place of {SUM:g}")


def _named() -> Wrong:
    check = Check(
        what="what verify names, of a loop whose scale moves inside the window",
        expected="scale-moved",
        measured=named(),
        because="the first of two microbatches has arrived with half its share, which is the ratio of the scales",
    )
    return Wrong(how="the same in a loop that trains", check=check, damage="the loss still falls, so only the gradient tells")


def _unscaled_inside() -> Wrong:
    reached = by_hand(lambda grad: grad.div_(FIRST))
    check = Check(
        what="unscaled after each microbatch",
        expected=G1 / FIRST + G2,
        measured=reached,
        because="the stored 0.5 is in original units when 1024 x 1 is added, and the last division takes both",
    )
    return Wrong(
        how="divide .grad by the scale after every backward", check=check, damage="all microbatches but the last are lost"
    )


def _converted() -> Edge:
    return Edge(
        where="what is stored is converted to the new scale when it moves: then it may move",
        check=Check(
            what="stored x 2048/1024 before the second backward",
            expected=SUM,
            measured=by_hand(lambda grad: grad.mul_(SECOND / FIRST), SECOND),
            because="both parts bear the scale of 2048 when it is divided out; exact, for 2 is a power of two",
        ),
    )


LAB = Lab(
    name="constant-scale",
    facts=("B1",),
    topic="accumulation",
    title="One scale a window",
    claim="The loss scale stays constant while a window accumulates. Gradients g1 and g2 stored at scales S1 and S2 and divided "
    "once, by S2, leave (S1/S2) g1 + g2.",
    source="torch's automatic mixed precision examples, 'Gradient accumulation': the scale factor should remain constant while "
    "grads for a given effective batch are accumulated",
    shows=shows,
    after=(
        After(lab="two-numbers", why="a scale that moves becomes a weight, which it shows to be another number"),
        After(lab="exact-scaling", why="a constant scale leaves no trace, which a changing one does"),
    ),
    asks=(
        Number(
            key="grown",
            prompt="Gradients 0.5 at scale 1024 and 1 at scale 2048 are added in .grad and divided by 2048. What is left?",
            answer=lambda shown: shown.measured("the scale doubles inside the window"),
            why="(512 + 2048) / 2048 = 1.25: half of the first and all of the second.",
            tempting=(
                Tempting(value=lambda _: SUM, why="So it would be with one scale. The 512 was stored at 1024."),
                Tempting(
                    value=lambda shown: shown.measured("the scale halves inside the window, as after an overflow"),
                    why="That is the scale halving: the first counts twice.",
                ),
            ),
        ),
        Choice(
            key="overflow",
            prompt="The second of four microbatches overflows at scale 2048. What may the loop do?",
            answer=lambda shown: (
                "skip" if shown.measured("the scale halves inside the window, as after an overflow") != SUM else "go on"
            ),
            options=(
                Option(
                    text="go on to the end of the window, skip it as a whole, then halve the scale",
                    value="skip",
                    why="The window is the unit: one finiteness check, one decision, one scale.",
                ),
                Option(
                    text="halve the scale and run the other microbatches with it",
                    value="go on",
                    why="Tempting, for it saves the window. What is stored bears 2048, and besides it is not finite.",
                ),
            ),
        ),
        Open(
            key="between",
            prompt="A colleague calls scaler.update() after each microbatch 'so that the scale adapts sooner'. What do you "
            "answer?",
            rubric=(
                "One division at the end cannot take out two scales",
                "The ratio of the scales becomes a weight of the earlier microbatches",
                "Where it shows: in the gradient beside the full batch's, in no error and not in the loss curve",
            ),
            strong="Every move of the scale re-weights what is stored already, by old over new scale, and nothing reports it. "
            "Update once, after the window's step.",
            weak="It is slow.",
            follow_up="What would you have to do to .grad for it to be right?",
        ),
    ),
)
