"""Windows at the edge: none, one, nothing scored, all alike. Nothing is divided by zero, and what happened has a name."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from truestep.errors import WindowError
from truestep.labs.accumulation._scored import LR, MOMENTUM, PADDING, PLAIN, Attempted, Rows, by_hand, made, scored_mean
from truestep.labs.asking.ask import Buckets, Choice, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Shown, Table, Wrong

WINDOWS: dict[str, list[Rows]] = {
    "empty": [],
    "one example": [PLAIN[:1]],
    "one microbatch": [PLAIN],
    "one of two without a scored token": [PLAIN, PADDING],
    "no scored token": [PADDING, PADDING],
    "four times the same": [PLAIN[:1]] * 4,
    "three times the same": [PLAIN[:1]] * 3,
}
HAPPENED = "what the engine made of each window"


def shows() -> Shown:
    """Each window by the engine, and the degenerate ones by hand."""
    done = {name: Attempted(window) for name, window in WINDOWS.items()}
    checks = (
        Check(
            what="what an empty window is",
            expected=WindowError.__name__,
            measured=done["empty"].happened,
            because="there is nothing to average: an error before anything has changed",
        ),
        Check(
            what="attempts counted for it, way of the weight, way of the momentum, scale over the scale before",
            expected=(0, 0.0, 0.0, 1.0),
            measured=(done["empty"].attempts, *done["empty"].changed),
            because="nothing was attempted, and nothing has changed",
        ),
        *(
            Check(what=f"gradient of {name}", expected=mean(WINDOWS[name]), measured=done[name].gradient or 0.0, because=because)
            for name, because in (
                ("one example", "its own"),
                ("one microbatch", "its mean; a share of 1 multiplies nothing"),
                (
                    "one of two without a scored token",
                    "the other's mean: a weight of 0 makes no backward, though its loss is 0/0",
                ),
                ("four times the same", "four quarters of 1"),
            )
        ),
        Check(
            what="gradient of three times the same",
            expected=1.0,
            measured=done["three times the same"].gradient or 0.0,
            within=4 * 2.0**-24,
            because="three thirds of 1, and a third is no float32 number: four roundings",
        ),
        Check(
            what="what a window without a scored token is",
            expected="zero total weight",
            measured=done["no scored token"].happened,
            because="the window's loss is 0/0: an attempt that is skipped, with this reason",
        ),
        Check(
            what="way of the weight, and of the momentum, in it",
            expected=(0.0, 0.0),
            measured=done["no scored token"].changed[:2],
            because="a skip leaves weight and momentum as they were",
        ),
        Check(
            what="loss scale after it, over the scale before",
            expected=1.0,
            measured=done["no scored token"].changed[2],
            because="no smaller scale would score a token: it stays",
        ),
    )
    rows = tuple((name, each.happened, each.gradient, each.attempts, each.completed) for name, each in done.items())
    table = Table(title=HAPPENED, columns=("window", "happened", "gradient", "attempts", "completed"), rows=rows)
    return Shown(checks=checks, wrong=(_undefined(), _clamped(), _nothing()), tables=(table,))


def mean(window: list[Rows]) -> float:
    """Over the scored tokens: plain arithmetic."""
    scored = [gradient for rows in window for gradient, is_scored in rows if is_scored]
    return math.fsum(scored) / len(scored)


def _undefined() -> Wrong:
    check = Check(
        what="the weight is NaN after a window of padding, by hand",
        expected=True,
        measured=math.isnan(by_hand(at_least=0.0)),
        because="0/0: the factor 1/0 is infinite, and 0 times it undefined",
    )
    return Wrong(how="divide by the scored tokens, whatever they are", check=check, damage="every weight is NaN from then on")


def _clamped() -> Wrong:
    reached = by_hand(at_least=1.0)
    check = Check(
        what="way of the weight in a window of padding, divided by at least 1",
        expected=-LR * MOMENTUM * mean([PLAIN]),
        measured=reached,
        because="the gradient is 0, and the momentum of the window before goes on: rate x momentum x 2",
    )
    return Wrong(
        how="clamp the count to 1",
        check=check,
        damage=f"{reached:g} where nothing was learned; decay and schedule move too, and it counts as completed",
    )


def _nothing() -> Wrong:
    """An empty window by hand."""
    model, sgd = made()
    schedule = torch.optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5)
    no_window: list[Tensor] = []
    sgd.zero_grad()
    for x in no_window:
        torch.autograd.backward(scored_mean(model, x) / len(no_window))
    sgd.step()
    schedule.step()
    check = Check(
        what="learning rate after an empty window by hand",
        expected=LR * 0.5,
        measured=sgd.param_groups[0]["lr"],
        because="step() finds no gradient and does nothing, and the schedule does not know",
    )
    return Wrong(
        how="run the loop over no microbatch", check=check, damage="a tick of the schedule without an update, and no word"
    )


LAB = Lab(
    name="degenerate-windows",
    facts=("B9",),
    topic="accumulation",
    title="Windows at the edge",
    claim="A window's mean is a sum over a count, so each degenerate window has one right answer: without a microbatch an error, "
    "without a scored token a skip with its reason, with one microbatch the plain step, with equal ones the gradient of one.",
    source="that a mean over nothing does not exist; torch.nn.CrossEntropyLoss, which says of ignore_index that the loss is "
    "averaged over non-ignored targets",
    shows=shows,
    after=(
        After(lab="mean-of-means", why="the count that is divided by is introduced there"),
        After(lab="two-numbers", why="a weight of 0 is no scale of 0"),
    ),
    asks=(
        Buckets(
            key="sort",
            prompt="What should become of each window?",
            buckets=("completed", "zero total weight", "WindowError"),
            answer=lambda shown: {row[0]: row[1] for row in shown.table(HAPPENED).rows},
            why={
                "empty": "nobody makes one on purpose: an error says so at once",
                "one example": "a mean over one is that one",
                "one microbatch": "the plain step",
                "one of two without a scored token": "the other one has the whole weight",
                "no scored token": "it can happen in good data; there is nothing to learn, and the record says why",
                "four times the same": "equal gradients have their own mean",
                "three times the same": "likewise, but for a rounding",
            },
        ),
        Number(
            key="clamp",
            prompt="SGD with rate 0.5 and momentum 0.5. The window before had the gradient 2; this one is all padding, and the "
            "loop divides by max(count, 1). How far does the weight move?",
            answer=lambda shown: shown.measured("way of the weight in a window of padding, divided by at least 1"),
            why="0.5 x (0.5 x 2 + 0) = 0.5, downwards: a gradient of 0 is still a step.",
            tempting=(
                Tempting(
                    value=lambda _: 0.0, why="So it is for a skip. A gradient of 0 leaves momentum, decay and schedule moving."
                ),
                Tempting(value=lambda _: -LR * mean([PLAIN]), why="That was the window before."),
            ),
        ),
        Choice(
            key="scale",
            prompt="A window has no scored token. What should the dynamic loss scale do?",
            eliminate=True,
            answer=lambda shown: shown.measured("loss scale after it, over the scale before"),
            options=(
                Option(text="stay", value=1.0, why="The skip has nothing to do with range."),
                Option(
                    text="halve, for the attempt was skipped",
                    value=0.5,
                    why="Tempting: torch halves on every gradient that is not finite, and 0/0 is not. No scale cures it.",
                ),
                Option(text="double, for nothing overflowed", value=2.0, why="Nothing was shown about overflow either."),
            ),
        ),
        Open(
            key="first",
            prompt="'The gradient of a window is the mean of its microbatches' gradients.' Push it to its edges: where does it "
            "first fail?",
            rubric=(
                "Unequal counts: it is the weighted mean",
                "A microbatch of weight 0, whose own mean does not exist, though the window's does",
                "No weight at all, or no microbatch: no mean exists",
            ),
            strong="With unequal counts already. With a weight of 0 one of the means is 0/0 while the window's is fine; with a "
            "total of 0 the window has none, and a skip is the answer.",
            weak="It never fails.",
        ),
    ),
)
