"""Where accumulation is not the full batch, whatever the weights and the precision: each case named by verify."""

from __future__ import annotations

import math

import torch
from torch import nn

from truestep.labs.accumulation._coupled import CASES, arithmetic, contrastive, normalise, verified
from truestep.labs.asking.ask import Buckets, Choice, Column, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

NUMBERS = (0.0, 2.0, 10.0, 12.0)
"""One feature of four examples."""
CANCELLED = 4 * 12 * 2.0**-24
"""Four float32 roundings of numbers up to 12, of which differences of 1 are left."""
ROUNDINGS = 16 * 2.0**-24
VERDICTS = "two microbatches beside the full batch, by verify"
NORMALISED = "one feature of four examples, normalised by BatchNorm"


def shows() -> Shown:
    """Each case verified: those that accumulate, and those that do not, with what they are by arithmetic."""
    found = {name: verified(name) for name in CASES}
    checks = tuple(
        Check(what=f"verify of {name}", expected="passed", measured=found[name], because=because)
        for name, because in (
            ("a linear model", "each example's output and loss are its own"),
            ("LayerNorm", "it normalises each example by itself"),
        )
    )
    rows = tuple((name, verdict) for name, verdict in found.items())
    tables = (
        Table(title=VERDICTS, columns=("case", "verdict"), rows=rows),
        Table(
            title=NORMALISED, columns=("example", "its number", "in two microbatches", "in the full batch"), rows=_normalised()
        ),
    )
    edges = (
        _batch_norm(found),
        _statistics(),
        _apart(),
        _dropout(found),
        _one_dropout(found),
        _contrastive(found),
        _logarithms(),
    )
    return Shown(checks=checks, wrong=(_equally(found),), edges=edges, tables=tables)


def _normalised() -> tuple[tuple[str, float, float, float], ...]:
    parts, whole = (*normalise(NUMBERS[:2]), *normalise(NUMBERS[2:])), normalise(NUMBERS)
    return tuple((str(place + 1), *each) for place, each in enumerate(zip(NUMBERS, parts, whole, strict=True)))


def _batch_norm(found: dict[str, str]) -> Edge:
    return Edge(
        where="BatchNorm: a microbatch has a mean and a variance of its own",
        check=Check(
            what="what verify names, of BatchNorm",
            expected="batch-norm",
            measured=found["BatchNorm"],
            because="rows agree before it and differ after it",
        ),
    )


def _statistics() -> Edge:
    return Edge(
        where="the same in numbers: 0 and 2 are one microbatch, 10 and 12 the other",
        check=Check(
            what="normalised in two microbatches",
            expected=(*arithmetic(NUMBERS[:2]), *arithmetic(NUMBERS[2:])),
            measured=(*normalise(NUMBERS[:2]), *normalise(NUMBERS[2:])),
            within=CANCELLED,
            because="each pair has its own mean, 1 or 11, and a variance of 1; four roundings of numbers up to 12",
        ),
    )


def _apart() -> Edge:
    return Edge(
        where="and the four in one batch",
        check=Check(
            what="normalised in the full batch",
            expected=arithmetic(NUMBERS),
            measured=normalise(NUMBERS),
            within=CANCELLED,
            because="the mean is 6, the variance 26: the pairs lie apart",
        ),
    )


def _dropout(found: dict[str, str]) -> Edge:
    return Edge(
        where="dropout: the microbatches draw other numbers than the full batch does",
        check=Check(
            what="what verify names, of two dropouts",
            expected="dropout",
            measured=found["two dropouts"],
            because="their layers draw in turn: the second microbatch's first draw comes after the first one's last. "
            "Each update is as right as the other",
        ),
    )


def _one_dropout(found: dict[str, str]) -> Edge:
    return Edge(
        where="a single dropout, on the CPU: its draws are cut into microbatches like the rows",
        check=Check(
            what="verify of one dropout",
            expected="passed",
            measured=found["one dropout"],
            because="the CPU's generator draws number after number: two draws of 8 rows are one of 16. Elsewhere, or with "
            "a second layer that draws, they are not",
        ),
    )


def _contrastive(found: dict[str, str]) -> Edge:
    return Edge(
        where="a contrastive loss: examples are each other's negatives",
        check=Check(
            what="what verify names, of a contrastive loss",
            expected="loss",
            measured=found["contrastive loss"],
            because="no module couples the rows, and the mean of the microbatches' losses is not the full batch's loss",
        ),
    )


def _logarithms() -> Edge:
    """With weights of 0 all similarities are equal, and the loss is the logarithm of the batch."""
    model = nn.Linear(3, 4, bias=False)
    nn.init.zeros_(model.weight)
    x = torch.randn(16, 3)
    return Edge(
        where="the same in numbers: with all similarities equal it asks for one in as many as there are",
        check=Check(
            what="contrastive loss of 16 in one batch, and mean of two microbatches of 8",
            expected=(math.log(16), math.log(8)),
            measured=(contrastive(model, x).item(), sum(contrastive(model, part).item() for part in torch.split(x, 8)) / 2),
            within=math.log(16) * ROUNDINGS,
            because="log 16 and log 8: accumulated, 8 negatives are never seen; to repair it all embeddings are needed at once",
        ),
    )


def _equally(found: dict[str, str]) -> Wrong:
    check = Check(
        what="what verify names, of 12 and 4 averaged equally",
        expected="mean-of-means",
        measured=found["12 and 4 averaged equally"],
        because="nothing couples the rows here: the weights alone are wrong, and declaring them repairs it",
    )
    return Wrong(
        how="divide unequal microbatches by their number", check=check, damage="the 4 examples count three times as much"
    )


LAB = Lab(
    name="not-the-full-batch",
    facts=("B7",),
    topic="accumulation",
    title="Where accumulation is another update",
    claim="Accumulating gradients over N microbatches gives the update of one batch that is N times as large.",
    source="a common account of gradient accumulation; Ioffe & Szegedy 2015 (torch.nn.BatchNorm1d) for batch statistics",
    condition="no module and no loss looks across examples, none draws at random (a single dropout on the CPU happens to draw "
    "alike), and the weights are what the losses are means over.",
    shows=shows,
    after=(After(lab="mean-of-means", why="it shows the one of these cases that right weights repair"),),
    asks=(
        Buckets(
            key="sort",
            prompt="16 examples in two microbatches, on the CPU. Which of these give the full batch's gradient?",
            buckets=("the full batch's", "another"),
            answer=lambda shown: {
                case: "the full batch's" if verdict == "passed" else "another" for case, verdict in shown.table(VERDICTS).rows
            },
            why={
                "a linear model": "each example has an output and a loss of its own",
                "LayerNorm": "it normalises over features, within an example",
                "BatchNorm": "it normalises over the examples of its microbatch",
                "one dropout": "on the CPU alone: two draws of 8 rows are one draw of 16",
                "two dropouts": "they draw other numbers: another update, and as right as the other",
                "contrastive loss": "examples are each other's negatives, and only of their microbatch",
                "12 and 4 averaged equally": "the weights are wrong, and can be put right",
            },
        ),
        Column(
            key="norm",
            prompt="0 and 2 are one microbatch, 10 and 12 the other. What does BatchNorm make of them?",
            table=lambda shown: shown.table(NORMALISED),
            blank="in two microbatches",
            why="Each pair has its own mean, 1 and 11, and a deviation of 1: it forgets that the pairs lie apart.",
        ),
        Number(
            key="log",
            prompt="A contrastive loss with all similarities equal: mean of two microbatches of 8?",
            answer=lambda shown: shown.measured("contrastive loss of 16 in one batch, and mean of two microbatches of 8")[1],
            why="log 8 = 2.079 in each, and so their mean.",
            tempting=(
                Tempting(
                    value=lambda shown: shown.measured("contrastive loss of 16 in one batch, and mean of two microbatches of 8")[
                        0
                    ],
                    why="log 16 is one batch of 16: each finds its twin among 16.",
                ),
                Tempting(value=lambda _: math.log(8) / 2, why="The mean of two equal losses is not half of one."),
            ),
        ),
        Choice(
            key="repair",
            prompt="Of a model with BatchNorm, which change makes accumulation the full batch's update?",
            eliminate=True,
            answer=lambda shown: shown.measured("verify of LayerNorm"),
            options=(
                Option(
                    text="LayerNorm in its place", value="passed", why="It looks at one example at a time. It is another model."
                ),
                Option(
                    text="another weight for each microbatch",
                    value="weights",
                    why="Tempting, for it repairs unequal counts. The outputs differ before any weight is applied.",
                ),
                Option(text="float32", value="float32", why="The gap is not one of precision; all of this ran in float32."),
            ),
        ),
        Open(
            key="analogy",
            prompt="Explain accumulation by a shopping bill that is paid in four visits. Where does the analogy break?",
            rubric=(
                "Adding up in parts gives the same total, whatever the order",
                "It breaks where a price depends on what else is in the basket: batch statistics, contrastive losses",
                "Averages need the number of items of each visit",
            ),
            strong="Four partial bills add up to the whole bill. A discount on the basket breaks it: its price depends on the "
            "company, as BatchNorm's output does. And a mean price needs the items of each visit.",
            weak="Four small steps are as good as one big one.",
            follow_up="Which of the broken cases is no mistake at all?",
        ),
    ),
)
