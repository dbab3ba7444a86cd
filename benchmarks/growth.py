"""How seconds grow with a number: the exponent of a power, fitted to measured points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The exponent b of seconds = a * number^b: 1 is linear; below 1 a constant part is still seen."""

    exponent: float
    """By least squares of the logarithms of all points."""
    at_the_end: float
    """Between the last point and the first one at a quarter of it or less: what goes on from there."""


def growth_of(numbers: Sequence[float], seconds: Sequence[float]) -> Growth:
    """The growth through at least two points, in rising order of the numbers.

    >>> growth_of([1.0, 10.0, 100.0], [2.0, 20.0, 200.0]).exponent
    1.0
    """
    xs, ys = [math.log(number) for number in numbers], [math.log(each) for each in seconds]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
    before = max((k for k in range(len(xs) - 1) if numbers[k] <= numbers[-1] / 4), default=len(xs) - 2)
    last = (ys[-1] - ys[before]) / (xs[-1] - xs[before])
    return Growth(exponent=slope, at_the_end=last)
