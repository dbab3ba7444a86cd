"""Clipping in original units, whatever the loss scale: by norm, by value, or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from truestep.engine.gradients import FLOAT32_MAX, FLOAT32_TINY, exact_norm, multiply
from truestep.errors import ClipError


class Clip(Protocol):
    """A rule that shortens a gradient."""

    def __call__(self, gradients: list[Tensor], *, norm: float, unit: float) -> tuple[float, float]:
        """The factor from stored to clipped gradient, and the clipped norm in original units.

        `unit` takes the stored gradients to original units and `norm` is theirs. A rule that is no single factor changes
        the stored gradients itself, and returns the factor that remains.
        """
        ...


@dataclass(frozen=True)
class NoClip:
    """Leaves every gradient as it is."""

    def __call__(self, gradients: list[Tensor], *, norm: float, unit: float) -> tuple[float, float]:
        """`unit` and `norm`, unchanged."""
        return unit, norm


@dataclass(frozen=True)
class ClipNorm:
    """Shortens a gradient longer than `limit` to it: g * min(1, limit / ||g||), in original units.

    torch's clip_grad_norm_ divides by ||g|| + 1e-6 instead; the two differ by at most 1e-6 / ||g||.

    >>> ClipNorm(1.0)([], norm=4.0, unit=1 / 1024)
    (0.000244140625, 1.0)
    """

    limit: float

    def __post_init__(self) -> None:
        """A limit is positive and finite."""
        _demand_limit("ClipNorm", self.limit)

    def __call__(self, gradients: list[Tensor], *, norm: float, unit: float) -> tuple[float, float]:
        """One factor for averaging, unscaling and clipping together."""
        if norm <= self.limit:
            return unit, norm
        return unit * (self.limit / norm), self.limit


@dataclass(frozen=True)
class ClipValue:
    """Cuts every element to [-limit, limit] in original units. The finite check comes before: an infinity is no large value."""

    limit: float

    def __post_init__(self) -> None:
        """A limit is positive and finite."""
        _demand_limit("ClipValue", self.limit)

    def __call__(self, gradients: list[Tensor], *, norm: float, unit: float) -> tuple[float, float]:
        """Cut in stored units, where `limit` is `limit / unit`; reads the elements again for the clipped norm."""
        bound = self.limit / unit
        if bound >= FLOAT32_MAX:
            return unit, norm  # nothing finite lies beyond
        if bound < FLOAT32_TINY:  # at a loss scale this small, stored units would round the limit to nothing
            multiply(gradients, unit)
            unit, bound = 1.0, self.limit
        torch._foreach_clamp_min_(gradients, -bound)
        torch._foreach_clamp_max_(gradients, bound)
        return unit, exact_norm(gradients) * unit


def clip_of(clip: Clip | None) -> Clip:
    """The rule that was asked for; ClipError for what is none, such as a bare number."""
    if clip is None:
        return NoClip()
    if not isinstance(clip, (ClipNorm, ClipValue)):
        raise ClipError(f"{clip!r} is no rule of clipping", hint="write clip=ClipNorm(1.0), ClipValue(1.0), or None")
    return clip


def _demand_limit(name: str, limit: float) -> None:
    if not (isinstance(limit, (int, float)) and math.isfinite(limit) and limit >= FLOAT32_TINY):
        raise ClipError(
            f"{name} needs a positive, finite limit that float32 holds, and was given {limit!r}",
            hint="leave clip=None out to clip nothing",
            limit=limit,
        )
