"""Two ways in which 'an overflow is detected and the step skipped' fails in a loop by hand, and what the engine does instead."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_value_

import truestep
from truestep.labs.asking.ask import Choice, Find, Open, Option
from truestep.labs.chosen import linear, loss
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

SCALE, LIMIT = 2.0**16, 1.0
LARGE, CLEAN = 2.0**120, 3.0
"""A gradient that overflows float32 once it is scaled, and one that does not."""
RESULTS = "what an overflow leaves in a weight of 0"
SCRIPT = """\
import torch
from torch.nn.utils import clip_grad_value_

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

for number in range(6):
    x = torch.randn(8, 4) * (1e4 if number == 3 else 1.0)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        output = model(x)
    scaler.scale(output.float().mean()).backward()
    clip_grad_value_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""


def shows() -> Shown:
    """Each way with the weight that it leaves, and the engine's in the same place."""
    engine = {
        "clip by value first": by_the_engine(LARGE, clip=truestep.ClipValue(LIMIT)),
        "optimizer.step()": by_the_engine(LARGE),
    }
    why = (
        "every element is inspected before the clip: nothing is written",
        "an attempt steps by itself, and only what it has inspected",
    )
    checks = tuple(
        Check(
            what=f"{name}, by the engine: weight, outcome",
            expected=("0", "backward overflow"),
            measured=(f"{weight:g}", said),
            because=because,
        )
        for (name, (weight, said)), because in zip(engine.items(), why, strict=True)
    )
    hands = clipped_first(), stepped_directly()
    rows = tuple((name, hand.weight, *engine[name]) for name, hand in zip(engine, hands, strict=True))
    table = Table(title=RESULTS, columns=("way", "by hand", "by the engine", "engine says"), rows=rows)
    wrong = (_clipped(hands[0]), _stepped(hands[1]))
    return Shown(checks=checks, wrong=wrong, edges=(_unscaled_before(), _refused()), tables=(table,))


def by_the_engine(gradient: float, *, clip: truestep.ClipValue | None = None, scale: float = SCALE) -> tuple[float, str]:
    """The weight after one attempt that began at 0, and the outcome in a word."""
    model, x = linear((gradient,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    update = truestep.Update(model, optimizer, loss=loss, clip=clip, scale=truestep.LossScale.dynamic(scale))
    return told(model, update([x]))


def told(model: nn.Module, outcome: truestep.Outcome) -> tuple[float, str]:
    """The one weight, and the outcome in a word."""
    (weight,) = model.parameters()
    return weight.item(), "completed" if outcome.skip is None else outcome.skip.reason.value


class Hand:
    """A weight of 0, an optimizer that moves by the gradient, and torch's scaler."""

    def __init__(self, scale: float = SCALE) -> None:
        self.model, _ = linear((CLEAN,))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=scale)

    def backward(self, value: float) -> None:
        """Zero, and the scaled backward of a microbatch whose gradient is `value`."""
        self.optimizer.zero_grad()
        torch.autograd.backward(self.scaler.scale(loss(self.model, torch.tensor([[value]]))))

    def step(self) -> None:
        """Check, step or skip, move the scale."""
        self.scaler.step(self.optimizer)
        self.scaler.update()

    @property
    def weight(self) -> float:
        """Where it stands."""
        return self.model.weight.item()


def clipped_first() -> Hand:
    """An overflow that is clipped by value before anybody looked."""
    hand = Hand()
    hand.backward(LARGE)
    clip_grad_value_(hand.model.parameters(), LIMIT)
    hand.step()
    return hand


def stepped_directly() -> Hand:
    """An overflow that unscale_ finds, and that nobody asks about."""
    hand = Hand()
    hand.backward(LARGE)
    hand.scaler.unscale_(hand.optimizer)
    hand.optimizer.step()
    hand.scaler.update()
    return hand


def _clipped(hand: Hand) -> Wrong:
    check = Check(
        what="weight, and the next scale, after an overflow clipped by value before the check",
        expected=(-LIMIT / SCALE, SCALE),
        measured=(hand.weight, hand.scaler.get_scale()),
        because="clamping makes 1 of inf, which the check takes for a gradient; unscaled it is 1/65536",
    )
    return Wrong(
        how="clip_grad_value_ before scaler.step, without unscale_",
        check=check,
        damage="an overflow is applied as a step of 1/65536 in its direction, and the scale never comes down",
    )


def _stepped(hand: Hand) -> Wrong:
    check = Check(
        what="weight, and the next scale, after optimizer.step() in place of scaler.step(optimizer)",
        expected=(-math.inf, SCALE / 2),
        measured=(hand.weight, hand.scaler.get_scale()),
        because="unscale_ found the overflow and update() halves the scale for it; nobody asked before stepping",
    )
    return Wrong(
        how="optimizer.step() after unscale_",
        check=check,
        damage="the log shows a scale that came down as it should, and the weights are gone",
    )


def _unscaled_before() -> Edge:
    hand = Hand()
    hand.backward(LARGE)
    hand.scaler.unscale_(hand.optimizer)
    clip_grad_value_(hand.model.parameters(), LIMIT)
    hand.step()
    return Edge(
        where="clip by value after unscale_: the check was made by unscale_, and its finding is kept",
        check=Check(
            what="weight, and the next scale, with unscale_ before the clip",
            expected=(0.0, SCALE / 2),
            measured=(hand.weight, hand.scaler.get_scale()),
            because="skipped, although what scaler.step sees is the clamped 1",
        ),
    )


def _refused() -> Edge:
    model, x = linear((CLEAN,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def stepping(model: nn.Module, x: Tensor) -> Tensor:
        optimizer.step()
        return loss(model, x)

    said = "nothing"
    try:
        truestep.Update(model, optimizer, loss=stepping)([x])
    except truestep.errors.StateError as error:
        said = type(error).__name__
    return Edge(
        where="the optimizer stepped directly inside the engine's attempt",
        check=Check(
            what="what the engine raises",
            expected="StateError",
            measured=said,
            because="its gradients are scaled and unchecked there",
        ),
    )


LAB = Lab(
    name="missed-overflows",
    facts=("D8",),
    topic="clocks",
    title="Overflows that nobody sees",
    claim="An overflow is detected and the step is skipped.",
    source="torch.amp.GradScaler, which skips the step where it finds an infinity or a NaN in the gradients",
    condition="the check reads each element in the units that the optimizer gets, before anything makes it finite, and the step "
    "asks it.",
    shows=shows,
    after=(
        After(lab="told-apart", why="it shows what a skip is for; here it does not come"),
        After(lab="clip-order", why="it shows what a clip before the unscaling does to finite gradients"),
    ),
    asks=(
        Find(
            key="line",
            prompt="One window of this loop overflows, and its update is applied all the same. Which line is to blame?",
            script=SCRIPT,
            why="clip_grad_value_ makes 1 of infinity before scaler.step looks. scaler.unscale_(optimizer) belongs before it: it "
            "makes the check, and keeps what it found.",
        ),
        Choice(
            key="unscaled",
            prompt="With scaler.unscale_ before clip_grad_value_, an overflow clamped to 1 reaches scaler.step. What happens?",
            answer=lambda shown: shown.measured("weight, and the next scale, with unscale_ before the clip")[0],
            options=(
                Option(text="it is skipped", value=0.0, why="unscale_ recorded the infinity before the clamp."),
                Option(text="the 1 is applied", value=-LIMIT, why="Tempting: all that step could read is finite by then."),
            ),
        ),
        Open(
            key="quiet",
            prompt="Build a case of your own in which an overflow is not skipped and no value in the log is infinite. Say where "
            "it first shows.",
            rubric=(
                "Something makes the gradient finite before the check: a clamp, nan_to_num, a check of the norm alone",
                "The weight that it leaves is finite",
                "Names the first sign: a scale that never falls, gradients at exactly the limit, or a test with a known overflow",
            ),
            strong="nan_to_num on the gradients before scaler.step: overflows become 0 or the largest float. First seen in a "
            "test that feeds one overflow and asserts that the weights stay as they were.",
            weak="Use a huge learning rate and watch the loss become NaN.",
        ),
    ),
)
