"""Unequal microbatches: the sum of the losses over the window's count, not the mean of means."""

from __future__ import annotations

import torch

from truestep.errors import WeightError
from truestep.labs.accumulation._tokens import (
    PARTS,
    SHARES,
    TOTAL,
    by_the_engine,
    gradient_by_hand,
    loss,
    made,
    named,
    over_ranks,
    refused,
    tokens,
)
from truestep.labs.asking.ask import Choice, Column, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong
from truestep.pages.words import percent

BY_TOKEN = sum(loss * count for loss, count in PARTS) / TOTAL
OF_MEANS = sum(loss for loss, _ in PARTS) / len(PARTS)
ULPS = (TOTAL + 16) * 2.0**-24
"""A sum over 110 tokens rounds at most so often; shares, products and divisions are under sixteen more."""


def shows() -> Shown:
    """The window by the engine, joined, by hand, and over two ranks."""
    outcome, reached = by_the_engine(PARTS)
    joined = torch.cat([tokens(part) for part in PARTS])
    checks = (
        Check(
            what="loss of the window by the engine",
            expected=BY_TOKEN,
            measured=outcome.loss or 0.0,
            within=BY_TOKEN * ULPS,
            because="(2 x 100 + 4 x 10) / 110 = 24/11; at most 110 additions and sixteen other roundings",
        ),
        Check(
            what="gradient at the optimizer by the engine",
            expected=BY_TOKEN,
            measured=reached,
            within=BY_TOKEN * ULPS,
            because="at a weight of 1 a token's loss is its gradient, so that both are averaged alike",
        ),
        Check(
            what="mean loss of the 110 tokens as one batch",
            expected=BY_TOKEN,
            measured=loss(made(), joined).item(),
            within=BY_TOKEN * ULPS,
            because="the same sum over the same count",
        ),
        Check(
            what="two ranks, each sum over the count of both",
            expected=BY_TOKEN,
            measured=over_ranks(whole=True),
            within=BY_TOKEN * ULPS,
            because="DDP averages, so each rank's sum is multiplied by 2 ranks and divided by the 110 tokens of both",
        ),
    )
    rows = tuple((f"{count} tokens", 1 / count / len(PARTS), 1 / TOTAL, TOTAL / count / len(PARTS)) for _, count in PARTS)
    table = Table(title=SHARES, columns=("microbatch", "mean of means", "by token", "the one over the other"), rows=rows)
    return Shown(checks=checks, wrong=(_by_hand(), _named(), _ranks()), edges=(_equal(), _refused()), tables=(table,))


def _by_hand() -> Wrong:
    reached = gradient_by_hand(PARTS)
    check = Check(
        what="gradient of the mean of means",
        expected=OF_MEANS,
        measured=reached,
        within=OF_MEANS * ULPS,
        because="(2 + 4) / 2, in which no count occurs; roundings as above",
    )
    short = PARTS[0][1] / PARTS[1][1]
    damage = f"{percent(reached / BY_TOKEN - 1)} too long; a token of the short microbatch counts {short:g} times one of the long"
    return Wrong(how="divide each mean loss by the number of microbatches", check=check, damage=damage)


def _named() -> Wrong:
    check = Check(
        what="what verify names, of such a loop with 12 and 4 examples",
        expected="mean-of-means",
        measured=named(),
        because="what arrives is half of each microbatch's mean, where the full batch has 3/4 and 1/4",
    )
    return Wrong(
        how="the same in a loop that trains", check=check, damage="its loss falls: another loss than the one that was meant"
    )


def _ranks() -> Wrong:
    reached = over_ranks(whole=False)
    check = Check(
        what="two ranks, each divided by its own count",
        expected=OF_MEANS,
        measured=reached,
        within=OF_MEANS * ULPS,
        because="DDP averages the ranks' gradients: a mean of means again, with every microbatch right by itself",
    )
    return Wrong(how="leave the other ranks' counts out", check=check, damage=f"{reached:.4f} in place of {BY_TOKEN:.4f}")


def _equal() -> Edge:
    equal = ((2.0, 16), (4.0, 16))
    return Edge(
        where="equal counts: there the mean of means is the mean, and the mistake sleeps until a last, shorter microbatch",
        check=Check(
            what="mean of means less the engine's gradient, 16 tokens each",
            expected=0.0,
            measured=gradient_by_hand(equal) - by_the_engine(equal)[1],
            because="1/2 of each mean is 16/32 of it; powers of two are exact",
        ),
    )


def _refused() -> Edge:
    return Edge(
        where="a declared weight that is not the loss's denominator",
        check=Check(
            what="how the engine answers weight=lambda _: 1",
            expected=WeightError.__name__,
            measured=refused(),
            because="the denominators of 100 and 10 are read off the losses' graphs, and the weights are 1 and 1",
        ),
    )


LAB = Lab(
    name="mean-of-means",
    facts=("B4",),
    topic="accumulation",
    title="The mean of means",
    claim="With unequal token counts the window's loss is the sum of its losses over its total count, of all ranks too. The "
    "mean of the microbatches' means weighs tokens by the company they are in.",
    source="that a mean is a sum over a count; torch.nn.parallel.DistributedDataParallel, which averages gradients over ranks",
    shows=shows,
    after=(After(lab="divide-by-n", why="it divides by N, which is right for equal counts alone"),),
    asks=(
        Number(
            key="loss",
            prompt="Mean losses of 2.0 over 100 tokens and 4.0 over 10. What is the window's loss by token?",
            answer=lambda shown: shown.measured("loss of the window by the engine"),
            why="(200 + 40) / 110 = 24/11 = 2.18.",
            tempting=(
                Tempting(
                    value=lambda shown: shown.measured("gradient of the mean of means"),
                    why="(2 + 4) / 2: the ten tokens count as much as the hundred.",
                ),
                Tempting(value=lambda _: sum(value for value, _ in PARTS), why="The sum of two means is no mean of anything."),
            ),
        ),
        Column(
            key="shares",
            prompt="What does one token of each microbatch weigh in the mean of means?",
            table=lambda shown: shown.table(SHARES),
            blank="mean of means",
            why="1/2 for the microbatch, divided among its tokens: 1/200 and 1/20. By token both are 1/110.",
        ),
        Choice(
            key="ranks",
            prompt="Two ranks, 100 tokens on one and 10 on the other, each loss divided by its rank's own count, then DDP. You "
            "get:",
            answer=lambda shown: round(shown.measured("two ranks, each divided by its own count"), 2),
            options=(
                Option(text="3, the mean of means", value=round(OF_MEANS, 2), why="DDP averages over ranks and knows no counts."),
                Option(
                    text="24/11, for each rank is right",
                    value=round(BY_TOKEN, 2),
                    why="Tempting: no rank has a mistake of its own. The count has to be that of all ranks.",
                ),
                Option(text="6, for DDP sums", value=round(2 * OF_MEANS, 2), why="It sums and divides by the ranks."),
            ),
        ),
        Open(
            key="find",
            prompt="How would you notice that a training run averages means, with its loss curve alone, and with more than that?",
            rubric=(
                "The curve alone does not show it",
                "A window of unequal counts held against its full batch does",
                "Equal counts hide it, so the test needs unequal ones",
            ),
            strong="Not by the curve: another weighting is another loss, and it falls. One window with 100 and 10 tokens "
            "against the 110 in one batch: the gradients differ by more than rounding.",
            weak="The loss would be visibly wrong.",
        ),
    ),
)
