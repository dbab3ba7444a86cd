"""Regions of automatic casts: which are open, and which formats a forward was run in."""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch

from truestep.audit.events import Autocast
from truestep.probe.owners import OWNERS

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher


class Autocasts:
    """`torch.autocast`, entered as a region or around a function."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._open: list[tuple[str, str, bool]] = []
        self._told: set[tuple[Any, ...]] = set()
        self._used: str | None = None

    @property
    def inside(self) -> bool:
        """Whether a region is open that casts."""
        return bool(self._open) and self._open[-1][2]

    @property
    def dtype(self) -> str | None:
        """What the open region casts to; None outside of all."""
        return self._open[-1][1] if self.inside else None

    def take(self) -> str | None:
        """The format of the regions since this was last asked."""
        used, self._used = self._used, self.dtype
        return used

    def install(self) -> None:
        """Watches every region being made, entered and left."""
        kind: Any = torch.amp.autocast_mode.autocast
        init, enter, leave = kind.__init__, kind.__enter__, kind.__exit__
        entered, left = self._watcher.hook(self._entered), self._watcher.hook(self._left)

        @wraps(init)
        def __init__(region: Any, device_type: Any, dtype: Any = None, enabled: bool = True, *args: Any, **kwargs: Any) -> None:
            init(region, device_type, dtype, enabled, *args, **kwargs)
            region._truestep_asked = bool(enabled)

        @wraps(enter)
        def __enter__(region: Any) -> Any:
            result = enter(region)
            entered(region)
            return result

        @wraps(leave)
        def __exit__(region: Any, *args: Any) -> Any:
            left(region)
            return leave(region, *args)

        self._watcher.patches.replace(kind, "__init__", __init__)
        self._watcher.patches.replace(kind, "__enter__", __enter__)
        self._watcher.patches.replace(kind, "__exit__", __exit__)

    def _entered(self, region: Any) -> None:
        frame = sys._getframe(1)
        while frame.f_code.co_name in ("guarded", "unseen", "__enter__") and frame.f_back is not None:
            frame = frame.f_back
        dtype = str(region.fast_dtype).removeprefix("torch.")
        outer = self.dtype
        self._open.append((region.device, dtype, region._enabled))
        if OWNERS[frame.f_code.co_filename] == "machinery" and "autocast_mode" not in frame.f_code.co_filename:
            return  # torch's own, as in a checkpointed forward
        if region._enabled and torch.is_grad_enabled():
            self._used = dtype
        site = self._watcher.recorder.site()
        key = (None if site is None else site.place, region.device, dtype, region._enabled, outer)
        if key not in self._told:
            self._told.add(key)
            self._watcher.recorder.emit(
                Autocast,
                site=site,
                device=region.device,
                dtype=dtype,
                enabled=region._enabled,
                outer=outer,
                asked=getattr(region, "_truestep_asked", None),
            )

    def _left(self, region: Any) -> None:
        if self._open:
            self._open.pop()
