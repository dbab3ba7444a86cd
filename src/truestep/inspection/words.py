"""Shares and ranges in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from truestep.inspection.spread import Losses, Spread


def percent(share: float | None) -> str:
    """A share as a percentage that shows whether it is above 0; - for none.

    >>> percent(0.0), percent(1e-9), percent(0.125), percent(None)
    ('0', '<0.001%', '12.500%', '-')
    """
    if share is None:
        return "-"
    return "0" if share == 0 else "<0.001%" if share < 1e-5 else f"{share:.3%}"


def binades(spread: Spread) -> str:
    """From the exponent of the smallest number to that of the largest.

    >>> from truestep.inspection.spread import Spread
    >>> binades(Spread.of([0.25, 3.0])), binades(Spread.of([0.0]))
    ('2^-2 .. 2^1', 'all 0')
    """
    if not spread.nonzero:
        return "all 0" if spread.zeros == spread.elements else "none finite"
    exponents = spread.histogram
    return f"2^{min(exponents)} .. 2^{max(exponents)}"


def losses_in_words(losses: Mapping[str, Losses]) -> str:
    """Each format with what it loses."""
    return ", ".join(f"{name} {percent(each.share('lost'))}" for name, each in losses.items())
