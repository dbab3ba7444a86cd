"""Counts of parameters as people write them, and bytes as people read them: GB is 10^9 bytes, GiB is 2^30."""

from __future__ import annotations

import math
import re

from truestep.errors import UsageError
from truestep.pages.words import SPACE, significant

_LETTERS = {"": 0, "k": 3, "m": 6, "b": 9, "g": 9, "t": 12}
_COUNT = re.compile(r"\s*([+-]?(?:\d[\d_,]*(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*([kmbgt]?)\s*", re.IGNORECASE)


def parameters_of(asked: float | str) -> int:
    """A number of parameters, from a number or from text: "7.5e9", "7.5B", "350M", "125_000".

    UsageError for what is no count: no number, none, fewer than none, or a part of a parameter.

    >>> parameters_of("7.5B"), parameters_of("350M"), parameters_of(7.5e9)
    (7500000000, 350000000, 7500000000)
    """
    number = _number(asked) if isinstance(asked, str) else float(asked)
    if number is None or not math.isfinite(number):
        raise UsageError(f"{asked!r} is no number of parameters", hint="write 7.5e9, 7.5B, 350M or 125000", asked=str(asked))
    if number <= 0:
        raise UsageError(
            f"a model of {asked} parameters takes no memory", hint="give 1 or more: 7.5e9, 7.5B, 350M", asked=str(asked)
        )
    if abs(number - round(number)) > 1e-9 * number:
        raise UsageError(f"{asked} parameters are no whole number", hint="write 7.5e9, 7.5B or 350M", asked=str(asked))
    return round(number)


def _number(text: str) -> float | None:
    found = _COUNT.fullmatch(text)
    if found is None:
        return None
    digits, letter = found.groups()
    return float(digits.replace("_", "").replace(",", "")) * 10.0 ** _LETTERS[letter.lower()]


def readable(size: float) -> str:
    """Bytes with a unit of powers of ten: GB is 10^9.

    >>> [readable(size).replace(SPACE, " ") for size in (0, 512, 32768, 1.2e11)]
    ['0 B', '512 B', '32.8 kB', '120 GB']
    """
    return _in_units(size, 1000, ("B", "kB", "MB", "GB", "TB", "PB"))


def binary(size: float) -> str:
    """Bytes with a unit of powers of two: GiB is 2^30.

    >>> [binary(size).replace(SPACE, " ") for size in (512, 32768, 2**30)]
    ['512 B', '32.0 KiB', '1.00 GiB']
    """
    return _in_units(size, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))


def both(size: float) -> str:
    """Bytes in both units, which are 7 % apart at GB and GiB.

    >>> both(1.2e11).replace(SPACE, " ")
    '120 GB (112 GiB)'
    """
    return readable(size) if abs(size) < 1000 else f"{readable(size)} ({binary(size)})"


def _in_units(size: float, base: int, units: tuple[str, ...]) -> str:
    power = 0
    while power < len(units) - 1 and abs(size) / base**power >= base - 0.5:  # 999.6 would read as 1,000
        power += 1
    shown = f"{size:,.0f}" if power == 0 else significant(size / base**power)
    return f"{shown}{SPACE}{units[power]}"
