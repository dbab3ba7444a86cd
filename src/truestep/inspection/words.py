"""An inspection as a plain-text report: attempts, one line for each row, formats, advice, notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from truestep.inspection.result import Inspection, Numbers
    from truestep.inspection.spread import Losses, Spread


def report(found: Inspection) -> str:
    """All of it, 100 columns at most but for long names."""
    skipped = sum(not each.completed for each in found.attempts)
    scales = " ".join(dict.fromkeys(f"{each.scale:g}" for each in found.attempts))
    lines = [
        f"{found.task or 'an update'}, policy {found.policy} on {found.device}: {len(found.attempts)} attempts inspected"
        f" after {' '.join(str(each.after) for each in found.attempts)}, {skipped} skipped, loss scale {scales}",
        "",
        f"{'layer':24} {'kind':26} {'range':>14} {'flushed':>9} {'measured':>9} {'subnormal':>9} {'overflow':>9}",
        *(_line(each) for each in (*found.whole, *found.numbers)),
        "",
        *(f"{each.layer or 'model'}: {each.scales}" for each in found.numbers if each.scales is not None),
        "",
        *(f"{'model' if each.layer is None else each.layer or 'model'}: {each.text} ({each.reason})" for each in found.advice),
        "",
        *found.notes,
    ]
    return "\n".join(lines)


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


def _line(each: Numbers) -> str:
    measured = "-" if each.measured is None else percent(each.measured.share("flushed"))
    use = each.in_use
    shares = [percent(use.share("flushed")), measured, percent(use.share("subnormal")), percent(use.share("overflowed"))]
    where = (each.layer or "model") if each.module else "all layers"
    return f"{where:24} {each.kind:26} {binades(each.spread):>14} " + " ".join(f"{share:>9}" for share in shares)
