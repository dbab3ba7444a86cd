"""A format is three numbers of bits; its largest, smallest and finest follow from them."""

from __future__ import annotations

import math

import torch

from truestep.formats import BLOCKS, FORMATS
from truestep.formats.torch_dtypes import dtype_of
from truestep.labs.asking.ask import Buckets, Choice, Column, Number, Option, Tempting
from truestep.labs.lab import Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

IEEE = ("fp32", "tf32", "bf16", "fp16", "e5m2")
"""Formats that give their largest exponent field to infinity and NaN."""
BITS = {
    "fp32": (8, 23),
    "tf32": (8, 10),
    "bf16": (8, 7),
    "fp16": (5, 10),
    "e4m3fn": (4, 3),
    "e5m2": (5, 2),
    "e2m3": (2, 3),
    "e3m2": (3, 2),
    "e2m1": (2, 1),
}
"""Bits of exponent and mantissa, as the sources print them; one more is the sign."""
FIGURES = ("largest", "smallest normal", "smallest", "step at 1")
FIELDS = "bits and what follows from them"


def shows() -> Shown:
    """Each format's four figures, read off its codes."""
    found = {name: measured(name) for name in BITS}
    checks = [
        Check(
            what=f"{name}: largest, normal, smallest, step",
            expected=derived(*bits, ieee=name in IEEE),
            measured=found[name],
            because=f"e = {bits[0]}, m = {bits[1]}: {_formula(name)}",
        )
        for name, bits in BITS.items()
    ]
    scale = FORMATS["e8m0"]
    blocks = (
        Check(
            what="e8m0: largest, smallest",
            expected=(2.0**127, 2.0**-127),
            measured=(decoded("e8m0", 254), decoded("e8m0", 0)),
            because=f"{scale.bits} bits of exponent alone, for the scale of a block: powers of two, no sign, no zero",
        ),
        Check(
            what="MXFP8, MXFP4: bits of an element",
            expected=(8 + 8 / 32, 4 + 8 / 32),
            measured=tuple(BLOCKS[name].bits_per_element for name in ("mxfp8-e4m3", "mxfp4-e2m1")),
            because="its own, and a thirty-second of the block's 8-bit scale",
        ),
    )
    rows = tuple((name, 1, *BITS[name], 1 + sum(BITS[name]), *found[name]) for name in BITS)
    table = Table(title=FIELDS, columns=("format", "sign", "exponent", "mantissa", "bits", *FIGURES), rows=rows)
    return Shown(checks=(*checks, *blocks), wrong=(_forgotten_bias(),), edges=_edges(), tables=(table,))


def derived(exponent: int, mantissa: int, *, ieee: bool) -> tuple[float, ...]:
    """The four figures by arithmetic on two numbers of bits."""
    bias = 2 ** (exponent - 1) - 1
    last = 2**exponent - (2 if ieee else 1)  # the largest exponent field that is a number
    taken = 1 if (exponent, mantissa) == (4, 3) else 0  # e4m3fn gives its very last code to NaN
    largest = (2.0 - 2.0**-mantissa * (1 + taken)) * 2.0 ** (last - bias)
    return largest, 2.0 ** (1 - bias), 2.0 ** (1 - bias - mantissa), 2.0**-mantissa


def measured(name: str) -> tuple[float, ...]:
    """The four figures, read off the codes: by torch where it stores the format, else by our own decoder."""
    each = FORMATS[name]
    last = (1 << (each.bits - 1)) - 1 - {"ieee": 1 << each.mantissa, "fn": 1}.get(each.specials, 0)
    one = (2 ** (each.exponent - 1) - 1) << each.mantissa
    largest, normal, smallest, unit, above = (decoded(name, code) for code in (last, 1 << each.mantissa, 1, one, one + 1))
    assert unit == 1.0
    return largest, normal, smallest, above - 1.0


def decoded(name: str, code: int) -> float:
    """The number that a bit pattern stands for."""
    each = FORMATS[name]
    dtype = dtype_of(each)
    if dtype is None:
        return each.decode(code)
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
    return float(torch.tensor([code], dtype=whole).view(dtype).double())


def _formula(name: str) -> str:
    bias = 2 ** (BITS[name][0] - 1) - 1
    words = f"bias {bias}, smallest normal 2^{1 - bias}, smallest 2^{1 - bias - BITS[name][1]}"
    if name == "e4m3fn":
        return f"{words}; the last code alone is NaN, so the largest is 1.75 x 2^8"
    return words if name in IEEE else f"{words}; no code is infinity or NaN"


def _forgotten_bias() -> Wrong:
    """Twice too far: the all-ones exponent counted as a number in fp16."""
    asked = derived(*BITS["fp16"], ieee=False)[0]
    stored = float(torch.tensor(asked).half())
    check = Check(
        what="fp16 of (2 - 2^-10) 2^16",
        expected=math.inf,
        measured=stored,
        because="65504 is the largest, half of this: the exponent field 31 stands for infinity and NaN, not for 2^16",
    )
    return Wrong(how="count the exponent field of all ones as numbers", check=check, damage="131008 becomes infinity")


def _edges() -> tuple[Edge, ...]:
    """Where counting bits says too little."""
    ten = torch.tensor([1.0 + 2.0**-11]).half().item()
    narrow = torch.tensor([70000.0])
    return (
        Edge(
            where="a 16-bit format is not half of float32: fp16 gave its bits to the mantissa, bf16 to the exponent",
            check=Check(
                what="70000 in fp16, and in bf16",
                expected=(math.inf, 2.0**9 * round(70000 / 2.0**9)),
                measured=(narrow.half().item(), narrow.bfloat16().item()),
                because="beyond 65504 fp16 has nothing; bf16 has it in steps of 2^(16 - 7) = 512",
            ),
        ),
        Edge(
            where="half of the step at 1 is a tie, which goes to the even neighbour",
            check=Check(
                what="fp16 of 1 + 2^-11", expected=1.0, measured=ten, because="1 and 1 + 2^-10 are as near; 1 has the even code"
            ),
        ),
    )


LAB = Lab(
    name="bits",
    facts=("C1",),
    topic="formats",
    title="Three numbers of bits say all",
    claim="A format is a sign, e bits of exponent and m of mantissa. With bias b = 2^(e-1) - 1 its smallest normal number is "
    "2^(1-b), its smallest of all 2^(1-b-m), the step at 1 is 2^-m, and its largest is (2 - 2^-m) 2^b.",
    source="IEEE 754-2019; Kalamkar et al. 2019; Micikevicius et al. 2022; OCP Microscaling Formats 1.0",
    condition="the largest is that where the exponent field of all ones is kept for infinity and NaN. e4m3fn gives one code of "
    "it to NaN and the MX elements none.",
    shows=shows,
    asks=(
        Column(
            key="mantissa",
            prompt="Each row has a sign bit and as many bits in all as stand there. How many are left for the mantissa?",
            table=lambda shown: shown.table(FIELDS),
            blank="mantissa",
            within=0.0,
            why="Bits in all, less the sign, less the exponent. tf32 is float32's range with fp16's mantissa, in 19 bits.",
        ),
        Number(
            key="smallest",
            prompt="float16 has 5 bits of exponent and 10 of mantissa. What is the smallest number above 0 that it stores?",
            answer=lambda shown: shown.table(FIELDS).column("smallest")[3],
            why="The smallest normal number is 2^-14; below it the mantissa's 10 bits still count, down to 2^-24 = 5.96e-08.",
            tempting=(
                Tempting(
                    value=lambda shown: shown.table(FIELDS).column("smallest normal")[3],
                    why="2^-14 is the smallest with all its bits. Subnormal numbers lie below, with fewer.",
                ),
                Tempting(
                    value=lambda shown: shown.table(FIELDS).column("step at 1")[3],
                    why="That is the distance from 1 to the next number: a matter of precision, not of range.",
                ),
            ),
        ),
        Choice(
            key="70000",
            prompt="An activation is 70000. Which 16-bit format stores it as a finite number?",
            answer=lambda shown: _holding(shown.measured("70000 in fp16, and in bf16")),
            options=(
                Option(text="float16", value="fp16", why="Tempting for its finer mantissa. Its range ends at 65504."),
                Option(
                    text="bfloat16",
                    value="bf16",
                    why="It has float32's 8 bits of exponent; it stores 70144, for its step is 512 here.",
                ),
                Option(text="both", value="both", why="Both have 16 bits, and as many codes. They lie at different places."),
                Option(
                    text="neither",
                    value="neither",
                    why="Tempting, for neither stores 70000 exactly: bfloat16 has 70144, which is finite.",
                ),
            ),
            eliminate=True,
        ),
        Buckets(
            key="spent",
            prompt="On what did each format spend its bits: has it float32's range, or less?",
            buckets=("float32's range", "less"),
            answer=lambda shown: {
                row[0]: "float32's range" if row[2] == BITS["fp32"][0] else "less"
                for row in shown.table(FIELDS).rows
                if row[0] != "fp32"
            },
            why={name: f"{bits[0]} bits of exponent, where float32 has 8" for name, bits in BITS.items() if name != "fp32"},
        ),
    ),
)


def _holding(pair: tuple[float, float]) -> str:
    """Which of fp16 and bf16 stored a finite number."""
    finite = math.isfinite(pair[0]), math.isfinite(pair[1])
    return {(True, True): "both", (True, False): "fp16", (False, True): "bf16", (False, False): "neither"}[finite]
