"""Dividing after the window is the same mathematics with N times less room in float16, and N times more at its other end."""

from __future__ import annotations

import torch

import truestep
from truestep.formats import FORMATS
from truestep.labs.asking.ask import Choice, Number, Open, Option, Tempting
from truestep.labs.chosen import linear
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

N = 4
SCALE = 65536.0
FP16 = FORMATS["fp16"]
TINY = 2.0**-24
"""The smallest number of float16 above 0."""
STORED = 30000.0
"""A gradient that float16 holds once, and not three times."""
SCALES = "four microbatches with gradient 1, before and after"


def shows() -> Shown:
    """The same window divided before and after, at scales around the limit of float16, in its sums, and near its zero."""
    rows = tuple(
        (scale, divided, *_row(attempt(1.0, scale, divided=divided)))
        for scale in (16384.0, SCALE)
        for divided in ("before", "after")
    )
    table = Table(title=SCALES, columns=("scale", "divided", "scaled, in float16", "gradient", "skipped for"), rows=rows)
    before, after = (attempt(1.0, 16384.0, divided=divided) for divided in ("before", "after"))
    checks = (
        Check(
            what="gradient divided before, at scale 16384",
            expected=1.0,
            measured=before.gradient or 0.0,
            because="four quarters of 1; powers of two are exact",
        ),
        Check(
            what="gradient divided after, at scale 16384",
            expected=1.0,
            measured=after.gradient or 0.0,
            because="a quarter of four",
        ),
        Check(
            what="the number in float16's backward, after over before",
            expected=float(N),
            measured=after.scaled / before.scaled,
            because="each backward carries the whole mean loss in place of its quarter",
        ),
    )
    return Shown(checks=checks, wrong=(_overflow(), _half_sums()), edges=(_float32_sums(), _underflow()), tables=(table,))


class Attempted:
    """One window at one scale."""

    def __init__(self, gradient: float | None, scaled: float, reason: str | None) -> None:
        self.gradient = gradient
        """What the optimizer got; None where it got nothing."""
        self.scaled = scaled
        """The gradient of the layer's float16 output, as the first microbatch's backward had it."""
        self.reason = reason


def attempt(gradient: float, scale: float, *, divided: str) -> Attempted:
    """A window of four microbatches with this gradient: a known total divides each loss, an unknown one the sum at the end."""
    model, x = linear((1.0,))

    def loss(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        out = model(x)
        out.register_hook(lambda grad: seen.append(grad.item()))
        return torch.sum(out.float()) * gradient

    seen: list[float] = []
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    static = truestep.LossScale.static(scale)
    update: truestep.Update[torch.Tensor] = truestep.Update(model, sgd, loss=loss, policy="fp16", scale=static)
    with update.attempt(total=N if divided == "before" else None) as attempted:
        for _ in range(N):
            with attempted.autocast():
                value = loss(model, x)
            attempted.backward(value, weight=1)
    skip = attempted.outcome.skip
    return Attempted(None if skip else -model.weight.item(), seen[0], str(skip.reason) if skip else None)


def _row(done: Attempted) -> tuple[float, float | None, str | None]:
    return done.scaled, done.gradient, done.reason


def half_sum(*, divided: bool) -> float:
    """The mean of three gradients of 30000 from a float16 parameter's own .grad, as a loop by hand takes it."""
    weight = torch.zeros(1, dtype=torch.float16, requires_grad=True)
    for _ in range(3):
        torch.autograd.backward((weight * STORED / (3.0 if divided else 1.0)).sum())
    assert weight.grad is not None
    return weight.grad.item() if divided else weight.grad.item() / 3


def float32_sum() -> float:
    """The same three gradients of a float16 parameter by the engine, which adds them in float32 and divides after."""
    model, x = linear((STORED,))
    update: truestep.Update[torch.Tensor] = truestep.Update(
        model,
        lambda parameters: torch.optim.SGD(parameters, lr=1.0),
        loss=lambda model, x: model(x).float().sum(),
        policy="fp16-master",
        scale=truestep.LossScale.static(1.0),
    )
    with update.attempt() as attempted:
        for _ in range(3):
            with attempted.autocast():
                loss = model(x).float().sum()
            attempted.backward(loss, weight=1)
    return -update.weights()["weight"].item()


def _overflow() -> Wrong:
    after, before = (attempt(1.0, SCALE, divided=divided) for divided in ("after", "before"))
    check = Check(
        what="why the window is skipped, divided after, at scale 65536",
        expected="backward overflow" if FP16.max < SCALE else "nothing",
        measured=after.reason or "nothing",
        because=f"1 x 65536 is beyond float16's largest, {FP16.max:g}; divided before it is 16384",
    )
    damage = f"a window is lost that completes with {before.gradient:g} when divided before; a dynamic scale ends 4 times lower"
    return Wrong(how="divide after the window, at the scale that torch begins with", check=check, damage=damage)


def _half_sums() -> Wrong:
    check = Check(
        what="three gradients of 30000 summed in a float16 .grad, then divided",
        expected=float("inf") if FP16.max < 3 * STORED else STORED,
        measured=half_sum(divided=False),
        because="60000 fits, 90000 does not",
    )
    damage = f"infinite, where divided before it is {half_sum(divided=True):g}"
    return Wrong(how="accumulate in float16 parameters' own .grad and divide after", check=check, damage=damage)


def _float32_sums() -> Edge:
    return Edge(
        where="the sums are float32: then they have room, as under autocast, or here where weights are float16",
        check=Check(
            what="the same three by the engine, summed in float32 and divided after",
            expected=STORED,
            measured=float32_sum(),
            within=STORED * 4 * 2.0**-24,
            because="90000 is no number of float16 and one of float32; two sums and a division round",
        ),
    )


def _underflow() -> Edge:
    before, after = (attempt(TINY, 1.0, divided=divided).gradient for divided in ("before", "after"))
    return Edge(
        where="the other end, without a loss scale: what is divided before is N times nearer to zero",
        check=Check(
            what="a gradient of 2^-24, four times: divided before, and after",
            expected=(FP16.round(TINY / N), TINY),
            measured=(before or 0.0, after or 0.0),
            because="2^-26 is below half of float16's smallest number and becomes 0; a loss scale of 4 gives the room back",
        ),
    )


LAB = Lab(
    name="divide-after",
    facts=("B3",),
    topic="accumulation",
    title="Before or after the window",
    claim="Dividing the accumulated gradient by N after the window is the same mathematics as dividing each loss before. Each "
    "float16 backward then runs N times larger and overflows at a scale N times lower, and sums that are kept in float16 "
    "overflow too.",
    source="the distributive law, and the largest number of IEEE 754's binary16, 65504",
    shows=shows,
    after=(
        After(lab="divide-by-n", why="it shows what the division is for"),
        After(lab="rescued", why="it shows the range that a later division gives up"),
        After(lab="kept", why="it shows which gradients are float32, and hence have room"),
    ),
    asks=(
        Choice(
            key="overflow",
            prompt="Gradient 1 in each of four microbatches, scale 65536, float16. Which window is skipped?",
            answer=lambda shown: tuple(row[1] for row in shown.table(SCALES).rows if row[4]),
            options=(
                Option(
                    text="the one divided after",
                    value=("after",),
                    why="65536 is just beyond float16's 65504. A quarter of it is far inside.",
                ),
                Option(
                    text="both",
                    value=("before", "after"),
                    why="Tempting: the scale itself is beyond float16. The loss is float32; what is cast is scale x share x "
                    "gradient.",
                ),
                Option(text="neither", value=(), why="Tempting: the sum is float32. The backward that feeds it is float16."),
            ),
        ),
        Number(
            key="scaled",
            prompt="Scale 16384, four microbatches with gradient 1. Which number does float16's backward hold when dividing "
            "after?",
            answer=lambda shown: shown.table(SCALES).rows[1][2],
            why="1 x 16384. Divided before it would be 4096.",
            tempting=(
                Tempting(
                    value=lambda shown: shown.table(SCALES).rows[0][2], why="That is dividing before: a quarter in each backward."
                ),
                Tempting(value=lambda _: 16384.0 * N, why="That is the sum, which is made in float32."),
            ),
        ),
        Open(
            key="choose",
            prompt="The total token count of a window is known only after its last microbatch. Before or after? What do you "
            "give up?",
            rubric=(
                "Divide after, for the total is needed, or by an estimate before and the rest after",
                "Room: each backward is larger by the total, so the scale ends lower",
                "Sums in float32, not in float16",
            ),
            strong="After, relative to the first microbatch's count, so that no backward grows by more than a ratio of counts; "
            "one division at the end, sums in float32. I give up some of the range that the scale could have used.",
            weak="It makes no difference: it is the same mathematics.",
        ),
    ),
)
