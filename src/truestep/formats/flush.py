"""What a format loses below its smallest number, for values of a known distribution."""

from __future__ import annotations

import math

from truestep.errors import UsageError
from truestep.formats.format import Format
from truestep.formats.table import FORMATS


def share_flushed(sigma: float, scale: float = 1.0, number_format: Format = FORMATS["fp16"]) -> float:
    """The share of values that become zero when they are stored, from 0 to 1.

    A value is flushed where |scale * x| is at most half the format's smallest number, as that tie goes to the even 0.
    For x normal around 0 with standard deviation sigma, and fp16 with its smallest number 2^-24, the share is

        P(|scale * x| <= 2^-25) = erf(2^-25 / (scale * sigma * sqrt(2))).

    Args:
        sigma: the standard deviation of the values, in their own unit; above 0.
        scale: the loss scale that multiplies them before they are stored; above 0.
        number_format: the format they are stored in.

    Raises:
        UsageError: sigma or scale is not a finite number above 0.

    >>> round(share_flushed(1e-7), 4), round(share_flushed(1e-7, scale=8), 4)
    (0.2343, 0.0297)
    """
    if not (0 < sigma < math.inf and 0 < scale < math.inf):
        raise UsageError(
            "sigma and scale are finite and above 0", hint="leave out values that are all 0", sigma=sigma, scale=scale
        )
    smallest = number_format.smallest_subnormal or number_format.smallest_normal
    return math.erf(smallest / 2 / scale / sigma / math.sqrt(2))
