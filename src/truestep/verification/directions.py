"""Mistakes that are told by their direction where something else has changed the length: a clip that nobody declared. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from truestep.pages.words import significant
from truestep.verification.cut import SAME
from truestep.verification.setting import Account, Setting


def directions(s: Setting, every: Iterable[Account]) -> Iterator[Account]:
    """Those of `every` mistake that leave another direction than the right one, at the length that arrived: a shorter one.

    Of some of the parameters alone only where a clip has left its mark: few numbers have any direction.
    """
    g, expected = s.gradients, s.gradients.norm(s.expected)
    if g.arrived == 0 or expected == 0 or (s.cut is None and g is not s.whole):
        return
    right = g.filled(s.expected) * (g.arrived / expected)
    for account in every:
        length = g.norm(account.coefficients)
        if length == 0 or length < g.arrived * (1 - SAME):
            continue
        turned = g.filled(account.coefficients) * (g.arrived / length)
        if g.norm(turned - right) > 2 * g.noise:
            yield replace(
                account,
                coefficients=turned,
                factor=None,
                sentence=f"{account.sentence}{_then(s, g.arrived / length)}",
                fix=f"{account.fix}{'' if s.cut is None else '; and ' + _clip(s)}",
            )


def _then(s: Setting, factor: float) -> str:
    if s.cut is None:
        return f". What arrives has this direction, and {significant(factor)} times this length"
    if s.cut.scaled:
        return f". Then it was clipped to the norm {significant(s.cut.limit)} while it still carried the loss scale"
    return f". Then it was cut to the norm {significant(s.cut.limit)}, by a clip that was not declared"


def _clip(s: Setting) -> str:
    assert s.cut is not None
    return "unscale before the clip" if s.cut.scaled else f"declare the clip: clip=ClipNorm({significant(s.cut.limit)})"
