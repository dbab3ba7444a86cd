"""Numbers in words for a reader: rounded to what can be read, units with them, absence said."""

from __future__ import annotations

import math

SPACE = "\N{NO-BREAK SPACE}"
"""Between a number and its unit."""
TIMES = "\N{MULTIPLICATION SIGN}"
NOT_MEASURED = "not measured"
NEITHER = "neither reached"
"""In place of a ratio of two budgets."""


def significant(value: float, digits: int = 3) -> str:
    """`value` to `digits` significant digits, without an exponent from 0.0001 to a million.

    >>> significant(13.6042), significant(1234.6), significant(0.000123456), significant(2e-7), significant(65536)
    ('13.6', '1,235', '0.000123', '2.00e-07', '65,536')
    >>> significant(9.996), significant(0.99996), significant(99.96)
    ('10.0', '1.00', '100')
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".rpartition("e")[2])  # of the rounded value: 9.996 has that of 10.0
    if exponent < -4 or exponent > 15:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def count(value: int | None) -> str:
    """A count with its thousands apart.

    >>> count(12345), count(None)
    ('12,345', 'not measured')
    """
    return NOT_MEASURED if value is None else f"{value:,}"


def counted(number: int, noun: str) -> str:
    """A count with what it counts.

    >>> counted(1, "seed"), counted(12345, "attempt"), counted(4, "microbatch"), counted(2, "loss")
    ('1 seed', '12,345 attempts', '4 microbatches', '2 losses')
    """
    ending = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def ratio_words(
    ratio: float,
    *,
    bound: str | None = None,
    interval: tuple[float, float] | None = None,
    spread: bool = True,
    times: str = TIMES,
) -> str:
    """How many times less something took: as the bound that it is, with its interval where `spread` is wanted.

    A bound "at most" or "at least" stands before the number. Any other says that both sides were cut at the budget; without an
    interval too, neither side ever reached the target, and the ratio of two budgets is no number to show.

    >>> ratio_words(2.0), ratio_words(0.5, bound="at most", times="x"), ratio_words(1.25, interval=(1.1, 9.996), times="x")
    ('2.00×', 'at most 0.500x', '1.25x (1.10 to 10.0)')
    >>> ratio_words(1.02, bound="of times cut at the budget", interval=(0.9, 1.1), times="x", spread=False)
    '1.02x of times cut at the budget'
    >>> ratio_words(1.0, bound="of times cut at the budget")
    'neither reached'
    """
    direction = bound if bound is not None and bound.startswith("at ") else None
    if bound is not None and direction is None and interval is None:
        return NEITHER
    words = [direction, f"{significant(ratio)}{times}", bound if direction is None else None]
    if interval is not None and spread:
        words.append(f"({between(*map(significant, interval))})")
    return " ".join(word for word in words if word is not None)


def between(low: str, high: str) -> str:
    """Both ends of an interval, already in words; once where they read alike.

    >>> between("0.9681", "0.9719"), between("0.97", "0.97")
    ('0.9681 to 0.9719', '0.97')
    """
    return low if low == high else f"{low} to {high}"


def seconds(value: float | None) -> str:
    """A duration, with the unit that suits its size.

    >>> [seconds(value).replace(SPACE, " ") for value in (0.01234, 13.6, 725.2, 7322.0, None)]
    ['12.3 ms', '13.6 s', '12 min 05 s', '2 h 02 min', 'not measured']
    """
    if value is None:
        return NOT_MEASURED
    if not math.isfinite(value):
        return significant(value)
    if 0 < value < 0.1:
        return f"{significant(value * 1000)}{SPACE}ms"
    if value < 300:
        return f"{significant(value)}{SPACE}s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes}{SPACE}min{SPACE}{rest:02d}{SPACE}s"
    hours, minutes = divmod(round(value / 60), 60)
    return f"{hours}{SPACE}h{SPACE}{minutes:02d}{SPACE}min"


def percent(share: float | None, digits: int = 3) -> str:
    """A share as a percentage.

    >>> [percent(share).replace(SPACE, " ") for share in (0.8, 0.00123, 0.0, None)]
    ['80 %', '0.123 %', '0 %', 'not measured']
    """
    if share is None:
        return NOT_MEASURED
    words = significant(100 * share, digits)
    return f"{words.rstrip('0').rstrip('.') if '.' in words and 'e' not in words else words}{SPACE}%"


def mebibytes(value: int) -> str:
    """A size in memory, in units of 2^20 bytes, or of 2^30 from one of them on.

    >>> [mebibytes(value).replace(SPACE, " ") for value in (312 * 2**20, 3 * 2**29)]
    ['312 MiB', '1.50 GiB']
    """
    size, unit = (value / 2**30, "GiB") if value >= 2**30 else (value / 2**20, "MiB")
    return f"{significant(size)}{SPACE}{unit}"


def listing(names: list[str]) -> str:
    """Names as a sentence lists them.

    >>> listing(["fp32"]), listing(["fp32", "bf16", "fp16"])
    ('fp32', 'fp32, bf16 and fp16')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
