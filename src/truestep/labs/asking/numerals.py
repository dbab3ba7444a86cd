"""Reads numbers as people type them: 1/1024, 2^-24, 6.1e-5, 1,000, 3 x 10⁻⁵; nothing else is ever evaluated."""

from __future__ import annotations

import math
import re
from fractions import Fraction

READABLE = "a number can be written as 0.25, 1/4, 2^-2, 2.5e-1, 1,000 or 3 x 10^-5"
LONGEST = 80
"""Characters of a number that is still read."""
LARGEST_BITS = 20_000
"""Of a power before it is rounded to a float, whose own reach is 2^-1074 to 2^1024."""

_SUPERSCRIPTS = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "+-0123456789")
_ALIKE = {
    "-": "\N{MINUS SIGN}\N{EN DASH}",
    "x": "\N{MULTIPLICATION SIGN}\N{MIDDLE DOT}*",
    "/": "\N{DIVISION SIGN}",
    ",": "_",
    " ": "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{THIN SPACE}",
}
_SIGNS = str.maketrans({each: sign for sign, others in _ALIKE.items() for each in others})
_WORDS = {"inf": math.inf, "infinity": math.inf, "infinite": math.inf, "∞": math.inf, "nan": math.nan, "not a number": math.nan}
_DECIMAL = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?: [0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+"
_FACTOR = re.compile(rf"\s*([+-]?)\s*((?:{_DECIMAL})(?:e[+-]?[0-9]{{1,3}})?)(?:\s*\^\s*(\(?)\s*([+-]?[0-9]{{1,4}})\s*(\)?))?\s*")


def read_number(text: str, *, unit: str | None = None) -> float | None:
    """The number that `text` stands for, the nearest float to its exact value; None where it is none.

    Products, quotients and whole powers of decimal numbers are read, from the left; thousands stand in threes, parted by a comma,
    a space or an underscore; % is a hundredth, where it is not the `unit`, which may follow. A comma is never a decimal point.

    >>> [read_number(text) for text in ("1/1024", "2^-24", "6.1e-5", "1,000", "204.8 ", "3 x 10^-5", "2**-2", "−.5", "50 %")]
    [0.0009765625, 5.960464477539063e-08, 6.1e-05, 1000.0, 204.8, 3e-05, 0.25, -0.5, 0.5]
    >>> [read_number(text) for text in ("1,5", "1/0", "2 + 2", "__import__('os')", "", "9^9999")]
    [None, None, None, None, None, None]
    >>> read_number("16 bytes", unit="bytes"), read_number("12 %", unit="%")
    (16.0, 12.0)
    """
    words = _plain(text, unit)
    sign = -1.0 if words.startswith("-") else 1.0
    if words.lstrip("+-") in _WORDS and len(words) - len(words.lstrip("+-")) <= 1:
        return sign * _WORDS[words.lstrip("+-")]
    share = words.endswith("%")
    exact = _product(words.removesuffix("%"))
    try:
        return None if exact is None else float(exact / 100 if share else exact)
    except OverflowError:
        return None


def read_numbers(text: str) -> tuple[float, ...] | None:
    """Several numbers, in brackets or not, parted by a semicolon, a space, or a comma and a space; None where one is none.

    >>> read_numbers("[1.2, 1/4]"), read_numbers("1 2"), read_numbers("1,000; 2"), read_numbers("1, two")
    ((1.2, 0.25), (1.0, 2.0), (1000.0, 2.0), None)
    """
    each = [read_number(part) for part in re.split(r"\s*;\s*|,\s+|\s+|,(?![0-9]{3})", text.strip().strip("[]()").strip())]
    found = tuple(number for number in each if number is not None)
    return found if len(found) == len(each) else None


def _plain(text: str, unit: str | None) -> str:
    """In small letters, with one sign for each thing, without a leading `about` and the unit behind it."""
    raised = re.sub("[⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", lambda found: "^" + found.group().translate(_SUPERSCRIPTS), text)
    words = re.sub(r"\*\*", "^", raised).translate(_SIGNS).strip().lower()
    words = re.sub(r"^(?:about|=|~|≈)\s*", "", words)
    return words.removesuffix("" if unit is None else unit.strip().lower()).strip()


def _product(words: str) -> Fraction | None:
    """The exact value of factors parted by x and /; None where something else stands there."""
    place, value, divides = 0, Fraction(1), False
    if re.match("[+-]?0x[0-9]", words):  # meant as another base, as a rule
        return None
    while place <= len(words) <= LONGEST:
        found = _FACTOR.match(words, place)
        factor = None if found is None else _power(found)
        if found is None or factor is None or (divides and not factor):
            return None
        value = value / factor if divides else value * factor
        place = found.end()
        if place == len(words):
            return value
        if words[place] not in "x/":
            return None
        divides = words[place] == "/"
        place += 1
    return None


def _power(found: re.Match[str]) -> Fraction | None:
    sign, decimal, opened, exponent, closed = found.groups()
    base, power = Fraction(re.sub("[, ]", "", decimal)), int(exponent or 1)
    bits = max(abs(base.numerator).bit_length(), base.denominator.bit_length())
    if bool(opened) != bool(closed) or bits * abs(power) > LARGEST_BITS or (not base and power < 0):
        return None
    raised: Fraction = base**power
    return -raised if sign == "-" else raised
