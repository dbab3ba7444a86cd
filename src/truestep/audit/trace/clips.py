"""Clips of torch's own, however a script has imported them."""

from __future__ import annotations

import math
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.nn.utils import clip_grad

from truestep.audit.events import Clipped
from truestep.audit.trace.tracks import Track, gradients, norm

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher


class Clips:
    """`clip_grad_norm_` by the function it calls inside, which an early import cannot miss; `clip_grad_value_` by its name."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def install(self) -> None:
        """Puts the watched clips in place."""
        watcher, patches = self._watcher, self._watcher.patches
        norms, total, values = clip_grad._clip_grads_with_norm_, clip_grad._get_total_norm, clip_grad.clip_grad_value_
        before, after = watcher.hook(self._before), watcher.hook(self._after)

        @wraps(norms)
        def watched_norms(parameters: Any, max_norm: Any, total_norm: Any, *args: Any, **kwargs: Any) -> Any:
            listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            standing = before(listed)
            watcher.operations.pause()
            try:
                result = norms(listed, max_norm, total_norm, *args, **kwargs)
            finally:
                watcher.operations.go_on()
            after("norm", max_norm, total_norm, listed, standing)
            return result

        @wraps(total)
        def watched_total(tensors: Any, norm_type: Any = 2.0, error_if_nonfinite: bool = False, *args: Any, **kwargs: Any) -> Any:
            if not error_if_nonfinite:
                return total(tensors, norm_type, error_if_nonfinite, *args, **kwargs)
            try:
                return total(tensors, norm_type, error_if_nonfinite, *args, **kwargs)
            except RuntimeError:
                watcher.hook(self._refused)(tensors)
                raise

        @wraps(values)
        def watched_values(parameters: Any, clip_value: Any, *args: Any, **kwargs: Any) -> Any:
            listed = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            standing = before(listed, hides=True)
            watcher.operations.pause()
            try:
                result = values(listed, clip_value, *args, **kwargs)
            finally:
                watcher.operations.go_on()
            after("value", clip_value, None, listed, standing)
            return result

        patches.replace(clip_grad, "_clip_grads_with_norm_", watched_norms)
        patches.replace(clip_grad, "_get_total_norm", watched_total)
        for owner in (clip_grad, torch.nn.utils):
            patches.replace(owner, "clip_grad_value_", watched_values)

    def _before(self, parameters: list[Tensor], *, hides: bool = False) -> tuple[float, dict[Track, float]] | None:
        """The norm, and what is beside it; of a clip that hides overflows always, unless a device is waited for."""
        if self._watcher.recorder.judging:
            return norm(gradients(parameters)), self._beside(parameters)
        if not hides or any(each.is_cuda for each in parameters):
            return None
        length = norm(gradients(parameters))
        return None if math.isfinite(length) else (length, {})

    def _beside(self, parameters: list[Tensor]) -> dict[Track, float]:
        """For each optimizer, the norm in original units of what is clipped with its gradients and is not its own."""
        carried = {id(each): track.carried for track in self._watcher.tracks for each in track.parameters}
        beside = {}
        for track in self._watcher.tracks.holding(parameters):
            own = set(map(id, track.parameters))
            others = [each for each in parameters if id(each) not in own and each.grad is not None]
            beside[track] = math.hypot(*(norm(gradients([each])) / carried.get(id(each), track.carried) for each in others))
        return beside

    def _after(
        self,
        how: Literal["norm", "value"],
        limit: Any,
        total: Any,
        parameters: list[Tensor],
        standing: tuple[float, dict[Track, float]] | None,
    ) -> None:
        self._watcher.recorder.mark(Clipped, self._watcher.recorder.site(), how)
        if standing is None:
            return
        before, beside = standing
        tracks = [track for track in self._watcher.tracks.holding(parameters) if track.backwards]
        after = norm(gradients(parameters))
        carried = max((track.carried for track in tracks), default=1.0)
        self._watcher.recorder.emit(
            Clipped,
            site=self._watcher.recorder.site(),
            how=how,
            limit=float(limit),
            norm=None if total is None else float(total),
            optimizers=tuple(track.number for track in tracks),
            carried=carried,
            factor=after / before if before and math.isfinite(before) else None,
            finite=math.isfinite(before),
            strict=False,
        )
        measured = float(total) if total is not None and carried == 1.0 else None
        for track in tracks:
            track.expected.clip(how, float(limit), parameters, beside=beside.get(track, 0.0), measured=measured)
        if isinstance(total, Tensor) and carried != 1.0:
            self._watcher.operations.taints.mark([total], carried, "clip", self._watcher.recorder.site())

    def _refused(self, tensors: Any) -> None:
        """`error_if_nonfinite` is about to raise."""
        held = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        known = {id(each.grad) for track in self._watcher.tracks for each in track.parameters if each.grad is not None}
        tracks = [track for track in self._watcher.tracks if track.backwards and any(id(each) in known for each in held)]
        self._watcher.recorder.emit(
            Clipped,
            site=self._watcher.recorder.site(),
            how="norm",
            limit=None,
            norm=None,
            optimizers=tuple(track.number for track in tracks),
            carried=max((track.carried for track in tracks), default=1.0),
            factor=None,
            finite=False,
            strict=True,
        )
