"""Below the smallest normal number float16 loses bits one by one, then the number."""

from __future__ import annotations

import math
from fractions import Fraction

import torch

from truestep.formats import share_flushed
from truestep.labs.asking.ask import Buckets, Choice, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

NORMAL, SMALLEST = 2.0**-14, 2.0**-24
GOLDEN = (1e-4, 6.1e-5, 1e-7, 1e-8)
STORED = "stored in float16"
DRAWN = 200_000


def shows() -> Shown:
    """Each number stored by torch, beside the nearest multiple of its step by fractions."""
    checks = []
    for number in GOLDEN:
        step = _step(number)
        checks.append(
            Check(
                what=f"float16 of {number:g}",
                expected=_nearest(number, step),
                measured=stored(number),
                because=f"{number / step:.4g} steps of 2^{math.log2(step):.0f}, rounded to a whole number: {_kind(number)}",
            )
        )
    rows = tuple(
        (_kind(number), f"{number:g}", stored(number), stored(number) / SMALLEST, abs(stored(number) / number - 1))
        for number in GOLDEN
    )
    table = Table(title=STORED, columns=("kind", "number", "stored", "in steps of 2^-24", "relative error"), rows=rows)
    return Shown(checks=tuple(checks), wrong=(_after_the_fact(),), edges=(_source(), *_ends(), *_many()), tables=(table,))


def stored(number: float) -> float:
    """What float16 keeps of a number."""
    return torch.tensor(number, dtype=torch.float64).half().item()


def _step(number: float) -> float:
    """The distance between float16's numbers around this one."""
    return max(2.0 ** (math.floor(math.log2(number)) - 10), SMALLEST)


def _nearest(number: float, step: float) -> float:
    return float(round(Fraction(number) / Fraction(step)) * Fraction(step))  # round() of a fraction takes ties to even


def _kind(number: float) -> str:
    if number >= NORMAL:
        return "normal"
    return "subnormal" if number > SMALLEST / 2 else "zero"


def _after_the_fact() -> Wrong:
    check = Check(
        what="1e-8 stored, then multiplied by 65536",
        expected=0.0,
        measured=stored(1e-8) * 65536.0,
        because="what was stored as 0 stays 0, whatever multiplies it",
    )
    return Wrong(how="scale the gradient that was already stored", check=check, damage="all of it is lost; nothing warns")


def _source() -> Edge:
    """What is printed of 6.1e-5, and what is."""
    return Edge(
        where="6.1e-5 is called the smallest normal number in print, rounded: it lies just below 2^-14 = 6.1035e-05",
        check=Check(
            what="multiples of 2^-24 in 6.1e-5 as it is stored",
            expected=round(6.1e-5 * 2**24),
            measured=int(float(torch.tensor(6.1e-5).half()) / SMALLEST),
            because="1024 of them would be the smallest normal number; 1023 is a subnormal one, with 10 bits in place of 11",
        ),
    )


def _ends() -> tuple[Edge, ...]:
    tie, above = torch.tensor([2.0**-25, 2.0**-25 * (1 + 2.0**-10)], dtype=torch.float64).half().double().tolist()
    return (
        Edge(
            where="the last number that becomes 0: half the smallest is a tie, and 0 is even",
            check=Check(
                what="float16 of 2^-25, and of a little more",
                expected=(0.0, SMALLEST),
                measured=(tie, above),
                because="anything above the tie is nearer to 2^-24",
            ),
        ),
    )


def _many() -> tuple[Edge, ...]:
    """Of normally distributed gradients around 1e-7, the share that becomes 0, by loss scale."""
    draws = torch.randn(DRAWN, dtype=torch.float64) * 1e-7
    edges = []
    for scale in (1.0, 8.0):
        share = math.erf(2.0**-25 / (scale * 1e-7 * math.sqrt(2)))
        lost = float(((draws * scale).half() == 0).double().mean())
        edges.append(
            Edge(
                where=f"what inspect foresees of such a tensor, times {scale:g}",
                check=Check(
                    what=f"share foreseen at scale {scale:g}",
                    expected=share,
                    measured=share_flushed(1e-7, scale),
                    within=4 * 2.0**-52,
                    because="erf(2^-25 / (scale sigma sqrt 2)); two roundings of its argument and its own",
                ),
            )
        )
        edges.append(
            Edge(
                where=f"a whole tensor of such numbers, normal with standard deviation 1e-7, times {scale:g}",
                check=Check(
                    what=f"share that became 0 at scale {scale:g}",
                    expected=share,
                    measured=lost,
                    within=5 * math.sqrt(share * (1 - share) / DRAWN),
                    because="erf(2^-25 / (scale sigma sqrt 2)); five standard errors of 200000 draws",
                ),
            )
        )
    return tuple(edges)


LAB = Lab(
    name="below-normal",
    facts=("C2",),
    topic="formats",
    title="What float16 does with small numbers",
    claim="Stored in float16, 1e-4 and 6.1e-5 are normal numbers, and 1e-8 becomes 0.0.",
    source="a common account, which prints the smallest normal number as 6.1e-5; IEEE 754-2019 for what it is; Micikevicius et "
    "al. 2018 for the gradients that lie there",
    condition="6.1e-5 is a rounding of the smallest normal number 2^-14 = 6.1035e-05. The number 6.1e-5 itself lies below it and "
    "is stored as a subnormal.",
    shows=shows,
    after=(After(lab="bits", why="the smallest normal and the smallest number come from the bits"),),
    asks=(
        Number(
            key="1e-7",
            prompt="1e-7 is stored in float16, whose numbers lie 2^-24 = 5.96e-08 apart down there. What is stored?",
            answer=lambda shown: shown.measured("float16 of 1e-07"),
            within=0.005,
            why="1e-7 is 1.68 steps; the nearest whole number of them is 2, which is 1.192e-07: 19 % too large, and no error.",
            tempting=(
                Tempting(
                    value=lambda _: 1e-7, why="It looks near enough to 1e-7, but float16 has nothing between 1 and 2 steps."
                ),
                Tempting(value=lambda _: SMALLEST, why="That is one step. Storing rounds to the nearest; it does not cut off."),
            ),
        ),
        Buckets(
            key="kinds",
            prompt="What does each number become in float16?",
            buckets=("normal", "subnormal", "zero"),
            answer=lambda shown: {row[1]: _read(row[2]) for row in shown.table(STORED).rows},
            why={
                "0.0001": "above 2^-14 = 6.1035e-05: all 11 bits",
                "6.1e-05": "just below 2^-14: 1023 steps of 2^-24, 10 bits",
                "1e-07": "two steps of 2^-24, binary 10: two bits are left, and 19 % is wrong",
                "1e-08": "less than half a step",
            },
        ),
        Choice(
            key="late",
            prompt="A gradient of 1e-8 was computed in float16. Multiplying it by 65536 afterwards gives?",
            answer=lambda shown: shown.measured("1e-8 stored, then multiplied by 65536"),
            options=(
                Option(text="0", value=0.0, why="It was 0 when it was stored. So the loss is scaled, before backward begins."),
                Option(
                    text="6.554e-4",
                    value=1e-8 * 65536,
                    why="Tempting: that is what scaling the loss gives. Here the multiplication comes too late.",
                ),
                Option(text="1e-8", value=1e-8, why="Tempting if scaling is thought to cancel by itself. Nothing divides here."),
            ),
        ),
        Open(
            key="quiet",
            prompt="Why is the loss of small gradients in float16 hard to notice in a training run? Where would you look?",
            rubric=(
                "No error, no infinity, no NaN: zero is a valid number",
                "The loss may still fall, because larger gradients remain",
                "Look at the share of exact zeros in gradients, by layer, or inspect where gradients lie against 2^-24",
            ),
            strong="Nothing breaks: zeros are finite, the check for infinities passes, larger gradients go on training the "
            "rest. I would count exact zeros by layer against a float32 backward of the same window.",
            weak="I would look whether the loss is NaN.",
            follow_up="Which layers lose most, and what would a loss scale of 1024 change of the share?",
        ),
    ),
)


def _read(number: float) -> str:
    """The kind of a number as it was stored."""
    return "zero" if number == 0 else "normal" if number >= NORMAL else "subnormal"
