"""The scale of each scaler, read from its tensor as seldom as can be: a reading may wait for a device."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace

from torch import Tensor
from torch.amp.grad_scaler import GradScaler, OptState


@dataclass(frozen=True, kw_only=True)
class _Scale:
    """A scale and the completed attempts behind it, as they were read or follow from what was read."""

    tensor: Tensor
    version: int
    value: float
    growth: int


class Scales:
    """What is known of scales: they stay until an attempt is skipped, growth is due, or someone else writes them."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[GradScaler, _Scale] = weakref.WeakKeyDictionary()
        self._skipped: weakref.WeakSet[GradScaler] = weakref.WeakSet()

    def now(self, scaler: GradScaler, *, look: bool) -> float:
        """The scale; read where `look` says so, or it is not known."""
        tensor = scaler._scale if scaler.is_enabled() else None
        if tensor is None:
            return scaler.get_scale()
        known = self._known.get(scaler)
        if known is None or look or known.tensor is not tensor or known.version != tensor._version:
            growth = int(scaler._get_growth_tracker()) if hasattr(scaler, "_get_growth_tracker") else 0
            known = _Scale(tensor=tensor, version=tensor._version, value=scaler.get_scale(), growth=growth)
            self._known[scaler] = known
        return known.value

    def skipped(self, scaler: GradScaler) -> None:
        """An optimizer of this scaler was not stepped: its next update moves the scale."""
        self._skipped.add(scaler)

    def stays(self, scaler: GradScaler) -> bool:
        """Whether an update about to be made leaves the scale: no skip is known or may be, and it is not due to grow."""
        known = self._known.get(scaler)
        if known is None or not scaler.is_enabled() or scaler in self._skipped:
            return False
        stepped = all(state["stage"] is OptState.STEPPED for state in scaler._per_optimizer_states.values())
        return stepped and known.growth + 1 < scaler.get_growth_interval()

    def updated(self, scaler: GradScaler, *, stays: bool) -> None:
        """An update was made, of which it was told before whether it leaves the scale."""
        self._skipped.discard(scaler)
        known = self._known.get(scaler)
        if stays and known is not None and known.tensor is scaler._scale and known.tensor._version == known.version + 1:
            self._known[scaler] = replace(known, version=known.version + 1, growth=known.growth + 1)
