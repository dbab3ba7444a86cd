"""Four ways in which 'an overflow is detected and the step skipped' fails in a loop by hand, and what the engine does instead."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_value_

import truestep
from truestep.labs.asking.ask import Buckets, Choice, Find, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.scaling.clip_order import linear, loss
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

SCALE, LIMIT = 2.0**16, 1.0
LARGE, CLEAN = 2.0**120, 3.0
"""A gradient that overflows float32 once it is scaled, and one that does not."""
SMALL = 2.0**-10
"""A loss scale below 1, as many overflows leave it."""
HALVINGS = 166
"""From 2^16 to 2^-149, the smallest float32, takes 165; the next gives 0."""
RESULTS = "an overflow in four loops, and by the engine"
FACTORS = torch.tensor([[2.0**70], [2.0**60]])
"""A gradient of 2^130: no float32, but 2^-10 of it is one."""
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
    wrong = (_clipped_first(), _scale_of_zero(), _small_scale(), _stepped_directly())
    engine = {
        "clip by value first": by_the_engine(LARGE, clip=truestep.ClipValue(LIMIT)),
        "a scale of 0": _after_many(),
        "a scale below 1": _unscaled_too_large(),
        "optimizer.step()": by_the_engine(LARGE),
    }
    checks = tuple(
        Check(
            what=f"{name}, by the engine: weight, outcome",
            expected=(f"{weight:g}", said),
            measured=(f"{engine[name][0]:g}", engine[name][1]),
            because=why,
        )
        for name, weight, said, why in (
            ("clip by value first", 0.0, "backward overflow", "every element is inspected before the clip: nothing is written"),
            ("a scale of 0", -CLEAN, "completed", "NaN inputs leave the scale alone, and it has a floor besides: 3 is applied"),
            ("a scale below 1", 0.0, "unscale overflow", "the gradient in original units is inspected, not the stored one"),
            ("optimizer.step()", 0.0, "backward overflow", "an attempt steps by itself, and only what it has inspected"),
        )
    )
    rows = tuple((name, _first(each.check.measured), *engine[name]) for name, each in zip(engine, wrong, strict=True))
    table = Table(title=RESULTS, columns=("way", "weight by hand", "weight by the engine", "engine says"), rows=rows)
    return Shown(checks=checks, wrong=wrong, edges=(_unscaled_before(), _refused()), tables=(table,))


def by_the_engine(gradient: float, *, clip: truestep.ClipValue | None = None, scale: float = SCALE) -> tuple[float, str]:
    """The weight after one attempt that began at 0, and the outcome in a word."""
    model, x = linear((gradient,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    update = truestep.Update(model, optimizer, loss=loss, clip=clip, scale=truestep.LossScale.dynamic(scale))
    return _told(model, update([x]))


def _told(model: nn.Module, outcome: truestep.Outcome) -> tuple[float, str]:
    (weight,) = model.parameters()
    return weight.item(), "completed" if outcome.skip is None else outcome.skip.reason.value


def _after_many() -> tuple[float, str]:
    """A clean attempt after 166 that no scale can cure."""
    model, x = linear((CLEAN,))
    update = truestep.Update(
        model, torch.optim.SGD(model.parameters(), lr=1.0), loss=loss, scale=truestep.LossScale.dynamic(SCALE)
    )
    for _ in range(HALVINGS):
        update([torch.tensor([[math.nan]])])
    return _told(model, update([x]))


def _unscaled_too_large() -> tuple[float, str]:
    model, _ = linear((CLEAN,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scale = truestep.LossScale.dynamic(SMALL)
    return _told(model, truestep.Update(model, optimizer, loss=_product, scale=scale, check_weight=False)([FACTORS]))


def _product(model: nn.Module, factors: Tensor) -> Tensor:
    """The weight times both factors, one after the other."""
    (weight,) = model.parameters()
    return (weight * factors[0] * factors[1]).sum()


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


def _clipped_first() -> Wrong:
    hand = Hand()
    hand.backward(LARGE)
    clip_grad_value_(hand.model.parameters(), LIMIT)
    hand.step()
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


def _scale_of_zero() -> Wrong:
    hand = Hand()
    for _ in range(HALVINGS):
        hand.backward(math.nan)
        hand.step()
    scale = hand.scaler.get_scale()
    hand.backward(CLEAN)
    hand.step()
    check = Check(
        what="scale after 166 NaN inputs, then the weight after one clean attempt",
        expected=("0.0", "nan"),
        measured=(str(scale), str(hand.weight)),
        because="2^16 / 2^166 is below float32's smallest; 0 times the gradient is finite, and unscaled it is 0 / 0",
    )
    return Wrong(how="a scale without a floor", check=check, damage="the first sound gradient destroys the weights")


def _small_scale() -> Wrong:
    hand = Hand(SMALL)
    torch.autograd.backward(hand.scaler.scale(_product(hand.model, FACTORS)))
    hand.step()
    check = Check(
        what="weight after a gradient that fits only while it is scaled by 1/1024",
        expected=-math.inf,
        measured=hand.weight,
        because="2^130 / 2^10 = 2^120 passes the check; unscaling then multiplies by 2^10, and 2^130 is beyond float32",
    )
    return Wrong(how="a scale below 1, checked while scaled", check=check, damage="infinity is written into the weight")


def _stepped_directly() -> Wrong:
    hand = Hand()
    hand.backward(LARGE)
    hand.scaler.unscale_(hand.optimizer)
    hand.optimizer.step()
    hand.scaler.update()
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


def _first(measured: object) -> float:
    """The weight of what a wrong way left: the number, or the one in a pair that is not the scale."""
    if isinstance(measured, tuple):
        return float(measured[1]) if isinstance(measured[0], str) else float(measured[0])
    assert isinstance(measured, float)
    return measured


LAB = Lab(
    name="missed-overflows",
    facts=("D8",),
    topic="clocks",
    title="Overflows that nobody sees",
    claim="An overflow is detected and the step is skipped.",
    source="torch's notes on automatic mixed precision, 'Typical Mixed Precision Training'",
    condition="the check reads each element in the units that the optimizer gets, before anything makes it finite, and the step "
    "asks it.",
    shows=shows,
    after=(
        After(lab="told-apart", why="it shows which skips leave the scale alone, which keeps it from 0"),
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
        Number(
            key="halvings",
            prompt="A scale of 2^16 is halved at every NaN input and has no floor. What is left of it after 166 of them?",
            answer=lambda shown: float(shown.measured("scale after 166 NaN inputs, then the weight after one clean attempt")[0]),
            within=0.0,
            why="0. 2^-149 is float32's smallest number; half of it rounds to 0, and 0 / 0 then becomes the weight.",
            tempting=(
                Tempting(value=lambda _: 2.0**-150, why="That would be it in exact arithmetic; float32 does not reach so far."),
                Tempting(value=lambda _: 2.0**-149, why="So it stands after 165. The next halving rounds to 0."),
            ),
        ),
        Buckets(
            key="hold",
            prompt="By hand, what does each way leave in the weight that an overflow should have left at 0?",
            buckets=("not finite", "a wrong number"),
            answer=lambda shown: {
                row[0]: "a wrong number" if math.isfinite(row[1]) else "not finite" for row in shown.table(RESULTS).rows
            },
            why={
                "clip by value first": "the clamped 1, unscaled: it looks like a small gradient, and is noticed last",
                "a scale of 0": "0 / 0",
                "a scale below 1": "2^120 x 2^10 is beyond float32",
                "optimizer.step()": "infinity itself",
            },
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
