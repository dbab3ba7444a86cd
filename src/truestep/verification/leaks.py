"""A gradient from before the window that is still in it, whole or cut together with the window's own. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from truestep.pages.words import significant
from truestep.verification.setting import Account, Setting


def leaked(s: Setting) -> Iterator[Account]:
    """Where something is known from before, how much of it is in what arrived: a = k g + d b, of least distance."""
    g = s.gradients
    if g.columns == s.count or g.gram[-1, -1] <= 0 or s.norm <= 0:
        return
    own, before = g.filled(s.shares), np.eye(g.columns)[-1]
    pair = np.stack([own, before])
    normal, right = pair @ g.gram @ pair.T, pair @ g.against.sum(axis=0)
    if np.linalg.det(normal) <= 1e-6 * normal[0, 0] * normal[1, 1]:  # alike but for rounding
        return
    kept, share = np.linalg.solve(normal, right)
    whole = abs(kept - 1) * g.norm(own) <= g.noise
    if share * g.lengths[-1] <= 2 * g.noise or not (whole or 0 < kept < 1):
        return
    what = "what .grad still held when the window began" if s.held else "what arrived at the attempt before"
    cut = "" if whole else f"; their sum was cut: the window's own counts {significant(kept)} times"
    yield Account(
        kind="leftover",
        coefficients=kept * own + share * before,
        factor=None,
        sentence=f"beside the window's own gradient, {significant(share)} times {what} is still in it: gradients were not"
        f" zeroed{cut}",
        fix="zero the gradients after every step, or before a window's first backward, also where a window made no step",
        rule="zero-grad-placement",
    )
