"""What a row of an inspection is called, and its powers of two in words: the same on the page and in the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
ALL = "all layers"


def layer(row: Row) -> str:
    """The layer's name; the model itself has none.

    >>> layer({"layer": "", "module": "Net"}), layer({"layer": "", "module": ""}), layer({"layer": "head", "module": "Linear"})
    ('the model itself', 'all layers', 'head')
    """
    return str(row["layer"]) or ("the model itself" if row["module"] else ALL)


def power(exponent: int) -> str:
    """A power of two.

    >>> power(-14)
    '2^-14'
    """
    return f"2^{exponent}"


def between(pair: list[int]) -> str:
    """A range of powers of two.

    >>> between([6, 15]), between([6, 6])
    ('2^6 .. 2^15', '2^6')
    """
    low, high = pair
    return power(low) if low == high else f"{power(low)} .. {power(high)}"


def magnitudes(row: Row) -> str:
    """From the power of two at or below the smallest number to the one at or below the largest, or why there is none.

    >>> magnitudes({"spread": {"histogram": [[-3, 1], [0, 2]], "elements": 3, "zeros": 0}})
    '2^-3 .. 2^0'
    """
    histogram = row["spread"]["histogram"]
    if histogram:
        return between([histogram[0][0], histogram[-1][0]])
    return nothing(row)


def nothing(row: Row) -> str:
    """Why there is no number to draw.

    >>> nothing({"spread": {"elements": 10, "zeros": 10}}), nothing({"spread": {"elements": 0, "zeros": 0}})
    ('all zero', 'no values')
    """
    spread = row["spread"]
    if not spread["elements"]:
        return "no values"
    return "all zero" if spread["zeros"] == spread["elements"] else "none finite but zeros" if spread["zeros"] else "none finite"


def scales(row: Row) -> str:
    """The powers of two that lose nothing, or the one that loses least, or why there is no question."""
    found = row["scales"]
    if found is None:
        return "not scaled"
    if found["lossless"] is not None:
        return between(found["lossless"])
    return "nothing to lose" if found["least"] is None else f"none; least at {power(found['least'])}"


def exponent_in_use(record: Mapping[str, Any]) -> int:
    """The exponent of the loss scale of the last inspected attempt, which is a power of two.

    >>> exponent_in_use({"attempts": [{"scale": 1024.0}, {"scale": 512.0}]})
    9
    """
    return round(math.log2(record["attempts"][-1]["scale"]))
