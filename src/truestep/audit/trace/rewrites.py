"""Weights that the script itself makes shorter or longer between an attempt and the next backward, as a decay by hand does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from truestep.audit.events import Rewritten
from truestep.audit.site import Site
from truestep.audit.trace.tracks import Track

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher

ALONG = 1e-9
"""1 - cosine up to which a write kept the direction: what is left is rounding."""

CHANGED = 1e-6
"""Relative change of a norm from which on it was changed."""


@dataclass
class _Line:
    moves: int = 0
    attempts: int = 0
    completed: int = 0
    chunk: int = 0


class Rewrites:
    """By line; a write that changes nothing when it is made again, such as a clamp or a copy, is none."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._lines: dict[tuple[str, int], _Line] = {}

    def before(self, name: str, func: Any, given: list[Any]) -> tuple[Track, Tensor, Tensor] | None:
        """The weight that an operation is about to write, with its optimizer and a copy; None where it writes none."""
        sets = name == "__set__" and getattr(func, "__self__", None) is torch.Tensor.data
        writes = sets or (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")
        target = given[0] if given else None
        if not writes or not isinstance(target, Tensor) or not self._watcher.operations.edits.is_weight(target):
            return None
        for track in self._watcher.tracks:
            if track.attempts and not track.backwards and any(target.data_ptr() == each.data_ptr() for each in track.parameters):
                return track, target, target.detach().clone()
        return None

    def after(self, name: str, written: tuple[Track, Tensor, Tensor]) -> None:
        """What became of it; further weights of the same line and attempt are the same move."""
        track, target, old = written
        site = self._watcher.recorder.site()
        ratio = _along(old, target.detach())
        if site is None or ratio is None:
            return
        recorder = self._watcher.recorder
        known = self._lines.setdefault((site.path, site.line), _Line())
        seen = known.moves == 0 or recorder.chunk - known.chunk <= 1  # else windows between were not looked at
        if known.moves and known.attempts == recorder.attempts[track.number]:
            return
        known.moves += 1
        if seen:
            self._tell(name, site, track, known, ratio)
        known.attempts, known.completed = recorder.attempts[track.number], recorder.completed[track.number]
        known.chunk = recorder.chunk

    def _tell(self, name: str, site: Site, track: Track, known: _Line, ratio: float) -> None:
        recorder = self._watcher.recorder
        recorder.emit(
            Rewritten,
            site=site,
            operation=name.strip("_"),
            optimizer=track.number,
            ratio=ratio,
            attempts=recorder.attempts[track.number] - known.attempts,
            completed=recorder.completed[track.number] - known.completed,
        )


def _along(old: Tensor, new: Tensor) -> float | None:
    """By what a write multiplied a tensor; None where it did something else, or nothing."""
    if old.shape != new.shape or old.numel() < 2 or old.is_complex():
        return None
    was, now = old.flatten().double(), new.flatten().double()
    lengths = float(was.norm()), float(now.norm())
    if not lengths[0] or not lengths[1]:
        return None
    ratio = lengths[1] / lengths[0]
    cosine = float(torch.dot(was, now)) / (lengths[0] * lengths[1])
    return ratio if 1 - cosine < ALONG and abs(ratio - 1) > CHANGED else None
