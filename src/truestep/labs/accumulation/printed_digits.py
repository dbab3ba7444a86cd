"""Accumulation equals the full batch in the printed digits, and not to the bit."""

from __future__ import annotations

import torch

from truestep.labs.accumulation._split_rows import (
    DIGITS,
    LR,
    MANY,
    ROWS,
    SIZE,
    UPDATES,
    bound,
    data,
    drift,
    exact,
    loss,
    made,
    verified,
    weights,
    window,
)
from truestep.labs.asking.ask import Choice, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

LAST_DIGIT = 2.0**-29
"""What the last bit of a float32 number between 1/64 and 1/32 is worth, such as 0.03."""
SEEDS = (42, 0, 1, 2, 3, 4, 5, 6)
APART = "4 x 32 beside 1 x 128, after one update"


def shows() -> Shown:
    """The printed setting, other seeds, more updates."""
    many, one = (weights(42, size) for size in (SIZE, ROWS))
    printed = tuple(round(value, DIGITS) for value in exact(42))
    passed = {seed: verified(seed) for seed in SEEDS[:4]}
    rows = tuple(
        (str(seed), gap, gap / LAST_DIGIT, bound(seed))
        for seed in SEEDS
        for gap in [apart(weights(seed, SIZE), weights(seed, ROWS))]
    )
    checks = (
        Check(
            what="w after 4 x 32, to the printed digits",
            expected=printed,
            measured=tuple(round(value, DIGITS) for value in many),
            because="from zeros sigmoid is 1/2, so w = -0.1 x the mean of (1/2 - y) x: float64, on the same rows",
        ),
        Check(
            what="w after 1 x 128, to the printed digits",
            expected=printed,
            measured=tuple(round(value, DIGITS) for value in one),
            because="the same mean",
        ),
        Check(
            what="largest difference of the two w",
            expected=0.0,
            measured=apart(many, one),
            within=bound(42),
            because="0 but for rounding: two sums of 128 terms round at most 127 times each, the step twice",
        ),
        Check(
            what="it is not 0, and at most four last digits of 0.03",
            expected=True,
            measured=0 < apart(many, one) <= 4 * LAST_DIGIT,
            because="about 4e-9: roundings of sums happen to one side or the other, so few are left of 127",
        ),
        Check(
            what=f"seeds of {len(SEEDS)} whose largest difference is within their own bound",
            expected=len(SEEDS),
            measured=sum(gap <= limit for _, gap, _, limit in rows),
            because="the same bound from each seed's rows",
        ),
        Check(
            what=f"largest difference after {MANY} updates in a row",
            expected=0.0,
            measured=apart(*(weights(42, size, updates=MANY) for size in (SIZE, ROWS))),
            within=drift(42),
            because="at this rate the exact update takes no two weights further apart, so that each adds its own roundings",
        ),
        Check(
            what=f"seeds of 4 whose {UPDATES} updates are within what verify derives",
            expected=len(passed),
            measured=sum(each.passed for each in passed.values()),
            because="3 (u sqrt(D) |r| + e): u = 2^-24, D roundings counted as it ran, e float32's own error against float64",
        ),
    )
    table = Table(title=APART, columns=("seed", "largest difference", "in last digits of 0.03", "derived bound"), rows=rows)
    return Shown(checks=checks, wrong=(_allows_anything(),), edges=(_bits(rows), _order(), _one()), tables=(table,))


def apart(many: tuple[float, ...], one: tuple[float, ...]) -> float:
    """The largest difference."""
    return max(abs(left - right) for left, right in zip(many, one, strict=True))


def _bits(rows: tuple[tuple[str, float, float, float], ...]) -> Edge:
    return Edge(
        where="bitwise, as it is often claimed",
        check=Check(
            what="all seeds end at the same bits",
            expected=False,
            measured=all(row[1] == 0 for row in rows),
            because="float32 addition is not associative: 4 sums of 32 round at other places than one sum of 128",
        ),
    )


def _order() -> Edge:
    """The full batch is not even equal to itself, its rows in another order."""
    gaps = []
    for seed in SEEDS:
        x, y = data(seed)
        update = made()
        update([(x.flip(0), y.flip(0))])
        gaps.append(apart(tuple(update.weights()["weight"][0].tolist()), weights(seed, ROWS)))
    return Edge(
        where="no accumulation at all: one batch of 128, its rows in reverse",
        check=Check(
            what="all seeds end at the same bits with their rows reversed",
            expected=False,
            measured=not any(gaps),
            because="the same sum in another order: it is the order that costs the bits, not accumulation",
        ),
    )


def _one() -> Edge:
    update, model = made(), torch.nn.Linear(2, 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    sgd = torch.optim.SGD(model.parameters(), lr=LR)
    torch.autograd.backward(loss(model, data(42)))
    sgd.step()
    update(window(42, ROWS))
    return Edge(
        where="one microbatch: there the bits are the same, for the operations are",
        check=Check(
            what="1 x 128 by the engine less the same by hand",
            expected=0.0,
            measured=apart(tuple(update.weights()["weight"][0].tolist()), tuple(model.weight[0].tolist())),
            because="a share of 1, a scale of 1: nothing is added and nothing divided",
        ),
    )


def _allows_anything() -> Wrong:
    """A tolerance by the size of the weights lets a mistake pass that the derived bound does not."""
    uneven, one = weights(42, 96, 32, weigh=False), weights(42, ROWS)
    check = Check(
        what="96 and 32 averaged equally pass a tolerance of 0.01",
        expected=True,
        measured=apart(uneven, one) < 0.01,
        because="the weights are 0.03: a hundredth is a third of them",
    )
    return Wrong(
        how="compare with a tolerance that was picked",
        check=check,
        damage=f"a mistake passes that is {apart(uneven, one) / bound(42):,.0f} times beyond the derived bound",
    )


LAB = Lab(
    name="printed-digits",
    facts=("B5",),
    topic="accumulation",
    title="Equal in print, not in bits",
    claim="4 microbatches of 32 end at the weights of one batch of 128, bit by bit.",
    source="a common account of gradient accumulation; IEEE 754-2019 for the rounding of every addition",
    condition="read 'to the printed digits', or within a bound that is derived. To the bit it holds where no sum is split.",
    shows=shows,
    after=(After(lab="divide-by-n", why="it shows the equality in numbers that do not round"),),
    asks=(
        Choice(
            key="bits",
            prompt="Seed 42, logistic regression from zeros, one SGD update in float32. Four microbatches of 32 and one batch "
            "of 128:",
            answer=lambda shown: shown.measured("largest difference of the two w") > 0,
            options=(
                Option(
                    text="differ by about 4e-9 in weights of 0.03", value=True, why="A rounding or two: the printed digits agree."
                ),
                Option(
                    text="are equal to the bit, for it is the same sum",
                    value=False,
                    why="Tempting: it is the same sum of real numbers. In float32 the order of additions shows.",
                ),
            ),
        ),
        Number(
            key="print",
            prompt="From zeros sigmoid is 1/2. The mean of (1/2 - y) x0 over the 128 rows is -0.3085. What is w0 after SGD at "
            "0.1?",
            answer=lambda shown: shown.measured("w after 4 x 32, to the printed digits")[0],
            why="0 - 0.1 x -0.3085 = 0.03085, for either split.",
            tempting=(
                Tempting(
                    value=lambda shown: -shown.measured("w after 4 x 32, to the printed digits")[0],
                    why="SGD goes against the gradient.",
                ),
                Tempting(
                    value=lambda shown: 4 * shown.measured("w after 4 x 32, to the printed digits")[0],
                    why="That is four mean losses added and not divided by 4.",
                ),
            ),
        ),
        Open(
            key="criterion",
            prompt="A test of accumulation has to say 'equal'. Why neither torch.equal nor a tolerance of 0.01, and what then?",
            rubric=(
                "torch.equal fails for right code: rounding depends on the order of additions",
                "A picked tolerance passes mistakes: unequal averaging, a missing microbatch",
                "A bound derived from the number of roundings, the format's unit and the size of the terms",
            ),
            strong="Right code differs by roundings, so I bound those: n additions of terms of this size round by at most n u "
            "times their sum. All mistakes that matter lie far beyond it.",
            weak="Whatever tolerance makes the test pass.",
        ),
    ),
)
