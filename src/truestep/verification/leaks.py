"""A gradient from before the window that is still in it, whole or cut together with the window's own. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from truestep.pages.words import significant
from truestep.verification.setting import Account, Setting

ALIKE = 1e-6
"""Squared sine of the angle of two gradients below which rounding alone may part them."""
FAINT = 0.5
"""The share of the gap that may remain once what is left of another window is taken out, where that is said to be the cause."""


def leaked(s: Setting) -> Iterator[Account]:
    """Where something is known from before, how much of it is in what arrived."""
    found = _parts(s)
    if found is None:
        return
    kept, share = found
    g, own = s.gradients, s.gradients.filled(s.shares)
    whole = abs(kept - 1) * g.norm(own) <= g.noise
    if share * g.lengths[-1] > 2 * g.noise and (whole or 0 < kept < 1):
        yield _account(
            s, kept, share, said="" if whole else f"; their sum was cut, the window's own to {significant(kept)} of it"
        )


def faint(s: Setting) -> Iterator[Account]:
    """What `.grad` still held, where it lies below the noise of the coefficients and still is most of what is wrong."""
    found = _parts(s) if s.held else None
    if found is None or found[1] <= 0:
        return
    expected = s.gradients.filled(s.expected)
    beside = expected + found[1] * np.eye(s.gradients.columns)[-1]
    if s.gradients.distance(beside) <= FAINT * s.gradients.distance(expected):
        yield _account(s, 1.0, found[1], said="")


def _parts(s: Setting) -> tuple[float, float] | None:
    """k and d of the a = k g + d b that lies nearest to what arrived; None where nothing is known from before."""
    g = s.gradients
    if g.columns == s.count or g.gram[-1, -1] <= 0 or s.norm <= 0:
        return None
    pair = np.stack([g.filled(s.shares), np.eye(g.columns)[-1]])
    normal, right = pair @ g.gram @ pair.T, pair @ g.against.sum(axis=0)
    if np.linalg.det(normal) <= ALIKE * normal[0, 0] * normal[1, 1]:
        return None
    kept, share = np.linalg.solve(normal, right).tolist()
    return kept, share


def _account(s: Setting, kept: float, share: float, *, said: str) -> Account:
    what = "what .grad still held when the window began" if s.held else "what arrived at the attempt before"
    return Account(
        kind="leftover",
        coefficients=kept * s.gradients.filled(s.shares) + share * np.eye(s.gradients.columns)[-1],
        factor=None,
        sentence=f"beside the window's own gradient, {significant(share)} times {what} is still in it: gradients were not"
        f" zeroed{said}",
        fix="zero the gradients after every step, or before a window's first backward, also where a window made no step",
        rule="zero-grad-placement",
    )
