"""A clip by value that was not declared, or that acted before unscaling: elements that differ in the full batch arrive alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from truestep.engine.clip import Clip, ClipValue
from truestep.pages.words import significant
from truestep.verification.cut import SAME, is_round

ALIKE = 2.0**-22
"""Relative difference of two elements that were cut to one limit, and divided by one number."""
VARIED = 0.05
"""Relative difference of the elements that should have arrived there, from which on an equal one is no chance."""
FEWEST = 3
"""Elements that show a limit."""
EXPLAINED = 0.25
"""The share of what arrived that rounding and a turned sign among the smallest elements may lie off."""


@dataclass(frozen=True, kw_only=True)
class ValueCut:
    """The limit that elements were cut to, which is not the declared one."""

    limit: float
    """As it arrives."""
    scale: float | None
    """The loss scale that the elements still carried when they were cut; None where they did not, or nobody can tell."""
    elements: int
    of: int
    alone: bool
    """Whether nothing else was done to the gradient."""

    @property
    def kind(self) -> str:
        """Of a reading."""
        return "clip-undeclared" if self.scale is None else "clip-before-unscale"

    @property
    def sentence(self) -> str:
        """What was seen."""
        cut = f"{self.elements} of {self.of} elements arrive as {significant(self.limit)} or -{significant(self.limit)}"
        if self.scale is None:
            return f"{cut}, though they differ in the full batch: they were clipped by value, and that was not declared"
        limit = significant(self.limit * self.scale)
        return (
            f"{cut}, which is {limit} over the loss scale, {significant(self.scale)}: they were clipped by value, to {limit},"
            " while they still carried the loss scale"
        )

    @property
    def fix(self) -> str:
        """What to do about it."""
        if self.scale is None:
            return f"declare it, so that the rest can be told: clip=ClipValue({significant(self.limit)})"
        return "unscale first, then clip: scaler.unscale_(optimizer) before clip_grad_value_"


def value_cut(
    arrived: Mapping[str, Tensor], reference: Mapping[str, Tensor], *, clip: Clip | None, scale: float | None
) -> ValueCut | None:
    """The limit, where elements that should differ arrive alike at the largest size; None where they do not, or it was declared.

    >>> wanted = {"w": torch.tensor([0.5, 2.0, -3.0, 4.0])}
    >>> cut = value_cut({"w": wanted["w"].clamp(-1 / 8, 1 / 8)}, wanted, clip=None, scale=8.0)
    >>> cut.limit, cut.scale, cut.elements, cut.alone
    (0.125, 8.0, 4, True)
    """
    both = [(gradient, reference[name]) for name, gradient in arrived.items() if name in reference]
    if not both:
        return None
    a, r = (torch.cat([pair[side].reshape(-1).double() for pair in both]) for side in (0, 1))
    limit = float(a.abs().max()) if a.numel() else 0.0
    tied = a.abs() >= limit * (1 - ALIKE)
    sizes = r[tied].abs()
    if limit == 0 or int(tied.sum()) < FEWEST or float(sizes.max()) <= (1 + VARIED) * float(sizes.min()):
        return None
    declared = clip.limit if isinstance(clip, ClipValue) else None
    if declared is not None and math.isclose(limit, declared, rel_tol=SAME):
        return None
    return ValueCut(
        limit=limit,
        scale=scale if _scaled(limit, scale, declared) else None,
        elements=int(tied.sum()),
        of=a.numel(),
        alone=float((a - r.clamp(-limit, limit)).norm()) <= EXPLAINED * float(a.norm()),
    )


def _scaled(limit: float, scale: float | None, declared: float | None) -> bool:
    """Whether the limit that somebody chose is this one times the loss scale."""
    if scale is None or scale == 1.0:
        return False
    if declared is not None:
        return math.isclose(limit * scale, declared, rel_tol=SAME)
    return is_round(limit * scale) and not is_round(limit)
