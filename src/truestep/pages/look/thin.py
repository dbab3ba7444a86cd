"""Long series made short without hiding anything that sticks out: extremes, ends and named points stay."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray


def kept(values: NDArray[np.float64], *, points: int, always: Collection[int] = ()) -> NDArray[np.intp]:
    """The indices that a drawing of `values` keeps, in order: all of them where they are at most `points`.

    Else the series is cut into points // 2 stretches of equal length, and of each the least and the greatest finite
    value stay, besides the first and the last of the series and every index in `always` (skipped attempts). So no
    peak is lost, and what is left out lies between two values that are drawn. Never more than points + 2 + always.

    >>> kept(np.array([0.0, 1, 0, 9, 0, 0, -5, 0]), points=4, always=[4]).tolist()
    [0, 3, 4, 6, 7]
    """
    assert points >= 2, points
    if len(values) <= points:
        return np.arange(len(values))
    chosen = {0, len(values) - 1, *always}
    edges = np.linspace(0, len(values), points // 2 + 1).astype(int)
    for start, end in itertools.pairwise(edges):
        finite = np.flatnonzero(np.isfinite(values[start:end]))
        if len(finite):
            stretch = values[start:end][finite]
            chosen |= {int(start + finite[stretch.argmin()]), int(start + finite[stretch.argmax()])}
    return np.array(sorted(chosen), dtype=np.intp)


def changes(values: NDArray[np.float64]) -> NDArray[np.intp]:
    """The indices at which a step curve has its corners, and its ends: drawing these alone loses nothing.

    >>> changes(np.array([8.0, 8, 8, 4, 4, 8])).tolist()
    [0, 3, 5]
    """
    if not len(values):
        return np.arange(0)
    moved = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.unique(np.concatenate([[0], moved, [len(values) - 1]])).astype(np.intp)


def medians(positions: NDArray[np.float64], values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The median of the finite values in each stretch (edge, next edge], the first one closed; NaN where there is none.

    >>> medians(np.array([0.0, 1, 2, 3]), np.array([5.0, 7, np.inf, 2]), np.array([0.0, 2, 3]))
    array([6., 2.])
    >>> medians(np.array([0.0]), np.array([5.0]), np.array([0.0, 2, 3]))
    array([ 5., nan])
    """
    finite = np.isfinite(values)
    stretch = np.clip(np.searchsorted(edges, positions[finite], side="left") - 1, 0, len(edges) - 2)
    inside = values[finite]
    present = set(np.unique(stretch).tolist())
    return np.array([np.median(inside[stretch == k]) if k in present else np.nan for k in range(len(edges) - 1)])
