"""Loss scaling and statistical weighting are two operations, and two numbers in the record."""

from __future__ import annotations

import torch

import truestep
from truestep.labs.asking.ask import Buckets, Choice, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong
from truestep.ledger.records import attempt_record

Part = tuple[float, int]
PARTS: tuple[Part, Part] = ((2.0, 100), (4.0, 10))
"""Of each microbatch the mean gradient and the tokens it is a mean over."""
MEAN = (2.0 * 100 + 4.0 * 10) / (100 + 10)
ULPS = 8 * 2.0**-24
RECORD = "what the record says, and what the optimizer got"


def shows() -> Shown:
    """The same window under several scales and weights, each with its record."""
    cases = {
        "scale 1, by tokens": attempt(1.0, weighted=True),
        "scale 1024, by tokens": attempt(1024.0, weighted=True),
        "scale 1, equal": attempt(1.0, weighted=False),
        "scale 1024, equal": attempt(1024.0, weighted=False),
    }
    line = attempt_record(cases["scale 1024, by tokens"][1])
    checks = (
        Check(
            what="gradient at scale 1024, weighted by tokens",
            expected=MEAN,
            measured=cases["scale 1024, by tokens"][0],
            within=MEAN * ULPS,
            because="(2 x 100 + 4 x 10) / 110 = 24/11; shares, products, a sum and a division: eight float32 roundings",
        ),
        Check(
            what="the same gradient at scale 1, less it",
            expected=0.0,
            measured=cases["scale 1, by tokens"][0] - cases["scale 1024, by tokens"][0],
            because="a power of two is divided out again, to the bit",
        ),
        Check(
            what="gradient with equal weights",
            expected=(2.0 + 4.0) / 2,
            measured=cases["scale 1024, equal"][0],
            because="the weight is not divided out: another weight is another mean, 3",
        ),
        Check(
            what="amp/loss_scale and weight in the ledger's line",
            expected=(1024.0, 110.0),
            measured=(line["amp/loss_scale"], line["weight"]),
            because="each in a field of its own",
        ),
    )
    rows = tuple((name, out.loss_scale, _total(out), reached) for name, (reached, out) in cases.items())
    table = Table(title=RECORD, columns=("window", "loss scale", "weight", "gradient"), rows=rows)
    return Shown(checks=checks, wrong=(_folded(), _twice()), edges=(_moved(),), tables=(table,))


def attempt(scale: float, *, weighted: bool) -> tuple[float, truestep.Outcome]:
    """The gradient at the optimizer, and the outcome, of a window of two microbatches."""
    model = _model()
    update: truestep.Update[Part] = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=1.0),
        loss=lambda model, part: model(torch.tensor([[part[0]]])).sum(),
        weight=(lambda part: part[1]) if weighted else (lambda part: 1),
        examples=lambda part: 1,
        tokens=lambda part: part[1],
        scale=truestep.LossScale.static(scale),
        check_weight=False,
    )
    outcome = update(list(PARTS))
    return (-model.weight).item(), outcome


def _model() -> torch.nn.Linear:
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    return model


def _total(outcome: truestep.Outcome) -> float:
    assert isinstance(outcome.weight, (int, float))
    return outcome.weight


def by_hand(*, scales: tuple[float, float], unscaled_by: float) -> float:
    """A loop that multiplies each microbatch's loss by a number of its own and divides once at the end."""
    weight = torch.zeros((), requires_grad=True)
    for (gradient, _), scale in zip(PARTS, scales, strict=True):
        torch.autograd.backward(weight * gradient * scale)
    assert weight.grad is not None
    return (weight.grad / unscaled_by).item()


def _folded() -> Wrong:
    """The 1/2 of the mean put into the scale: unscaling takes it out again."""
    check = Check(
        what="gradient, the mean's 1/2 folded into the loss scale",
        expected=2.0 + 4.0,
        measured=by_hand(scales=(512.0, 512.0), unscaled_by=512.0),
        because="1024 / 2 is a loss scale of 512, and unscaling divides by 512: the sum is left",
    )
    return Wrong(
        how="average by a smaller loss scale", check=check, damage="twice the mean: as many times too long as microbatches"
    )


def _twice() -> Wrong:
    count = len(PARTS)
    check = Check(
        what="gradient, divided by the microbatches before backward and again in the scale",
        expected=(2.0 + 4.0) / 4,
        measured=by_hand(scales=(1024.0 / count, 1024.0 / count), unscaled_by=1024.0 * count),
        because="two places had the same division to make",
    )
    return Wrong(how="one number for both, in two places", check=check, damage="half of the mean; nothing in a record shows it")


def _moved() -> Edge:
    return Edge(
        where="the scale moves within a window: then it does become a weight",
        check=Check(
            what="gradient of scales 1024 and 2048, divided by 2048",
            expected=2.0 * 1024 / 2048 + 4.0,
            measured=by_hand(scales=(1024.0, 2048.0), unscaled_by=2048.0),
            because="one division cannot take out two scales: the first microbatch counts half",
        ),
    )


LAB = Lab(
    name="two-numbers",
    facts=("B8",),
    topic="scaling",
    title="The scale is no weight",
    claim="Loss scaling and statistical weighting are two operations. The scale is divided out again and changes nothing; the "
    "weight stays and says what is averaged. A record holds both.",
    source="Micikevicius et al. 2018 for the scale; that a mean is a sum over a count, for the weight",
    condition="the scale is constant in a window.",
    shows=shows,
    after=(After(lab="exact-scaling", why="it shows that a scale leaves no trace"),),
    asks=(
        Number(
            key="weighted",
            prompt="Mean gradients 2.0 over 100 tokens and 4.0 over 10, loss scale 1024. What is the window's gradient by token?",
            answer=lambda shown: shown.measured("gradient at scale 1024, weighted by tokens"),
            why="(200 + 40) / 110 = 2.18. The scale of 1024 is not in it.",
            tempting=(
                Tempting(
                    value=lambda shown: shown.measured("gradient with equal weights"),
                    why="The mean of the means: 10 tokens count as much as 100.",
                ),
                Tempting(value=lambda _: MEAN * 1024, why="That is what backward stored. It is unscaled before the optimizer."),
            ),
        ),
        Choice(
            key="fold",
            prompt="To average two microbatches someone halves the loss scale instead of each loss. What reaches the optimizer?",
            answer=lambda shown: shown.measured("gradient, the mean's 1/2 folded into the loss scale"),
            options=(
                Option(text="the sum, 6", value=6.0, why="Unscaling divides by the halved scale: the half cancels."),
                Option(text="the mean, 3", value=3.0, why="Tempting: each loss was halved. So is what it is divided by later."),
                Option(text="half of the mean, 1.5", value=1.5, why="That is dividing twice."),
            ),
        ),
        Buckets(
            key="sort",
            prompt="Of four windows with the same microbatches: which give the same gradient?",
            buckets=("24/11", "3"),
            answer=lambda shown: {row[0]: "3" if row[3] == 3.0 else "24/11" for row in shown.table(RECORD).rows},
            why={
                "scale 1, by tokens": "the weights decide: 240 / 110",
                "scale 1024, by tokens": "the scale leaves no trace",
                "scale 1, equal": "the mean of 2 and 4",
                "scale 1024, equal": "the scale leaves no trace here either",
            },
        ),
        Open(
            key="record",
            prompt="A run's record has one field, 'loss multiplier: 0.25'. What can you not tell from it?",
            rubric=(
                "Whether it is divided out again (a scale) or stays (a weight)",
                "What the mean was taken over: microbatches, examples or tokens",
                "Whether the gradient norms beside it are in original units",
            ),
            strong="Whether 0.25 is one over four microbatches, which stays, or a loss scale, which is undone. So I cannot tell "
            "what was averaged, nor the unit of any norm beside it.",
            weak="Nothing is missing; 0.25 is the factor.",
        ),
    ),
)
