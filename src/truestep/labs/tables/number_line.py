"""Decimal gradients times every loss scale, stored in several formats: what each becomes, and what comes back unscaled."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from truestep.formats import FORMATS, Format

SHOWN = ("fp16", "bf16", "e4m3fn", "e5m2")
SIGNIFICANDS = ("1", "1.5", "2", "3", "5", "7")
DECADES = range(-12, 6)
SCALES = range(25)
"""Exponents: scales of 1 to 2^24."""


def number_line() -> dict[str, Any]:
    """Of each format its edges and, by gradient and scale, the stored number, its fate, its neighbours and the error left.

    A gradient is the float32 nearest to its decimal. `stored` is rounded by the format's own reference, from the exact product,
    as torch casts: None where that overflows, and the largest number in a format that saturates. `below` and `above` are the
    powers of two that lead to its neighbours in the format; `error` is that of what comes back, relative to the gradient, to
    three digits.
    """
    gradients = [f"{significand}e{decade}" for decade in DECADES for significand in SIGNIFICANDS]
    values = [FORMATS["fp32"].round(Fraction(each)) for each in gradients]
    formats = [_edges(FORMATS[name]) | _columns(FORMATS[name], values) for name in SHOWN]
    return {"gradients": gradients, "values": values, "scales": [SCALES[0], SCALES[-1]], "formats": formats}


def stored(form: Format, value: float, exponent: int) -> dict[str, Any]:
    """One number times 2^exponent in a format.

    >>> stored(FORMATS["fp16"], 1e-8, 0)["fate"], stored(FORMATS["fp16"], 1e-8, 16)["fate"]
    ('zero', 'rounded')
    """
    exact = Fraction(value) * 2**exponent
    code = form.encode(exact)
    number = form.decode(code)
    if not math.isfinite(number):
        return {"stored": None, "fate": "overflow", "below": None, "above": None, "error": None}
    above = None if number == form.max else _power(form.decode(code + 1) - number)
    return {
        "stored": number,
        "fate": _fate(form, number, exact),
        "below": None if code == 0 else _power(number - form.decode(code - 1)),
        "above": above,
        "error": float(f"{float(abs(Fraction(number) - exact) / exact):.2e}"),
    }


def _fate(form: Format, number: float, exact: Fraction) -> str:
    if not math.isfinite(form.round(exact, overflow="infinity" if form.infinities else "nan")):
        return "saturated"
    if number == 0:
        return "zero"
    if number < form.smallest_normal:
        return "subnormal"
    return "exact" if Fraction(number) == exact else "rounded"


def _edges(form: Format) -> dict[str, Any]:
    return {
        "name": form.name,
        "largest": form.max,
        "smallest_normal": form.smallest_normal,
        "smallest": form.smallest_subnormal,
        "mantissa": form.mantissa,
        "source": form.source,
    }


def _columns(form: Format, values: list[float]) -> dict[str, list[list[Any]]]:
    """By name a row a gradient, of a cell a scale."""
    cells = [[stored(form, value, exponent) for exponent in SCALES] for value in values]
    return {name: [[cell[name] for cell in row] for row in cells] for name in ("stored", "fate", "below", "above", "error")}


def _power(distance: float) -> int:
    """The exponent of a power of two."""
    fraction, exponent = math.frexp(distance)
    assert fraction == 0.5, distance
    return exponent - 1
