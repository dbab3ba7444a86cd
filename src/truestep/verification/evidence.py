"""What one failed attempt left to be read: what arrived, what should have, and the microbatches' own gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from truestep.engine.clip import Clip


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The numbers of one attempt; gradients by parameter name, on the CPU, in original units."""

    weights: tuple[float, ...]
    """Of each microbatch: what its loss is a mean over."""
    scale: float | None
    """The loss scale of the attempt; None where nobody could tell."""
    clip: Clip | None
    """The rule that was declared; None: nothing is to be clipped."""
    arrived: Mapping[str, Tensor]
    """At the moment of the optimizer's step, as the optimizer uses it. A parameter that got none is not there."""
    reference: Mapping[str, Tensor]
    """Of the full batch, before any clip: float64 where it could be had, else float32."""
    clipped_reference: Mapping[str, Tensor]
    """The same, clipped as declared: what should have arrived."""
    parts: tuple[Mapping[str, Tensor], ...]
    """The float32 gradient of each microbatch's own mean loss, from the same state."""
    before: Mapping[str, Tensor] | None
    """What `.grad` still held when the window began; where it held nothing, what arrived at the attempt before, if any did."""
    held: bool = False
    """Whether `before` is what `.grad` held."""
    compute_unit: float
    """Unit roundoff of the format that the products are computed in: 2^-11 for float16."""
