"""Clearings: gradients that were cleared or lost before a step used them, and what stands when the next backward comes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from truestep.audit.events import Edited, Zeroed
from truestep.audit.site import Site
from truestep.audit.trace.tracks import Track, gradients, norm, standing

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher


class Clearings:
    """`zero_grad` of optimizers and modules; a gradient that is set to zero or None is told by whoever sees it."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._zeroed_at: Site | None = None
        self._zeroed = False

    def install(self) -> None:
        """Puts the instrument in place."""
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            self._watch_zeros(owner)

    def _watch_zeros(self, owner: Any) -> None:
        original = owner.zero_grad
        noted = self._watcher.hook(self.note_zero)

        @wraps(original)
        def zero_grad(this: Any, *args: Any, **kwargs: Any) -> Any:
            noted()
            return original(this, *args, **kwargs)

        self._watcher.patches.replace(owner, "zero_grad", zero_grad)

    def note_zero(self) -> None:
        """Gradients are being cleared by the line that runs."""
        self._zeroed, self._zeroed_at = True, self._watcher.recorder.site()

    def gone(self, track: Track, *, stepping: bool = True) -> None:
        """Tells where gradients that no step has used are gone; where a step follows, also that only the unfit ones are."""
        if not track.backwards or track.stale:
            return
        parameters = track.parameters
        held = any(each.grad is not None for each in parameters)
        if stepping and held and self._zeroed and not track.fit and math.isfinite(norm(gradients(parameters))):
            self._hidden(track)
            return
        if held and (not self._zeroed or self._stand(track, parameters)):  # zeros may be what the backward gave
            return
        self._watcher.recorder.emit(
            Zeroed,
            site=self._zeroed_at if self._zeroed else None,
            optimizer=track.number,
            dropped=tuple(track.backwards),
            weights_moved=None if (moved := track.moved()) is None else bool(moved),
        )
        track.dropped += track.backwards
        track.backwards, track.held = [], 0.0
        track.expected.clear()
        track.carried = 1.0

    def kept(self, track: Track) -> bool:
        """Whether the backward that begins adds to gradients; tells of those that are gone by now.

        A gradient that is None is gone; whether one that stands there is all zeros is looked at only after a zero_grad.
        """
        parameters = track.parameters
        held = any(each.grad is not None for each in parameters)
        if self._zeroed or not held:
            self.gone(track, stepping=False)
        return held and (not (self._zeroed or track.stale) or self._stand(track, parameters))

    def take(self) -> Site | None:
        """The line that cleared gradients since the last backward; None where none did."""
        site, self._zeroed = self._zeroed_at if self._zeroed else None, False
        return site

    def _stand(self, track: Track, parameters: Sequence[Tensor]) -> bool:
        """Whether gradients are not all zeros.

        Where no number is to be looked at, those that a step has used are taken to be cleared if the first was written since.
        """
        if not self._watcher.recorder.judging and track.standing:
            now = standing(parameters)
            unwritten = any(now.get(key) == before for key, before in track.standing.items())
            if unwritten or track.stale:
                return unwritten
        return norm(gradients(parameters)) != 0.0

    def _hidden(self, track: Track) -> None:
        """Gradients that were not finite were cleared by hand, and a step uses the others."""
        track.fit = True
        self._zeroed = False
        self._watcher.recorder.emit(
            Edited,
            site=self._zeroed_at,
            operation="zero",
            optimizers=(track.number,),
            carried=track.carried,
            ratio=None,
            cosine=None,
            hid=True,
        )
