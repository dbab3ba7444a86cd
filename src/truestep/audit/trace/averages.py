"""Moving averages of the weights: torch's own by its class, those made by hand by what is written."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from truestep.audit.events import Averaged
from truestep.audit.site import Site
from truestep.audit.trace.tracks import LOW

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher


@dataclass
class _Average:
    number: int
    moves: int = 0
    attempts: int = 0
    completed: int = 0
    backwards: int = 0
    chunk: int = 0


class Averages:
    """Each average, and how many attempts there were between two of its moves."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._models: weakref.WeakKeyDictionary[Any, _Average] = weakref.WeakKeyDictionary()
        self._by_line: dict[tuple[str, int], _Average] = {}

    def install(self) -> None:
        """Watches `AveragedModel`; averages by hand are told by what is written."""
        original = AveragedModel.update_parameters
        before, after = self._watcher.hook(self._before), self._watcher.hook(self._after)

        @wraps(original)
        def update_parameters(averaged: AveragedModel, model: Any) -> None:
            kept = before(averaged, model)
            self._watcher.operations.pause()
            try:
                original(averaged, model)
            finally:
                self._watcher.operations.go_on()
            after(averaged, kept)

        self._watcher.patches.replace(AveragedModel, "update_parameters", update_parameters)

    def _before(self, averaged: AveragedModel, model: Any) -> list[tuple[Tensor, Tensor, Tensor]]:
        pairs = list(zip(averaged.module.parameters(), model.parameters(), strict=True))
        low = [pair for pair in pairs if pair[0].dtype in LOW]
        if not self._watcher.recorder.judging or not low or int(averaged.n_averaged) == 0:
            return []
        return [(mean, mean.detach().clone(), mean.detach() != weight.detach().to(mean.dtype)) for mean, weight in low]

    def _after(self, averaged: AveragedModel, kept: list[tuple[Tensor, Tensor, Tensor]] | None) -> None:
        known = self._models.get(averaged)
        if known is None:
            known = self._models[averaged] = _Average(len(self._models) + len(self._by_line))
        kept = kept or []
        dtype = next((mean.dtype for mean, _, _ in kept), None) or next(
            (each.dtype for each in averaged.parameters()), torch.float32
        )
        self._tell(
            known,
            self._watcher.recorder.site(),
            by_hand=False,
            dtype=dtype,
            made=self._watcher.modules.cast_at(kept[0][0]) if kept else None,
            asked=sum(int(differs.sum()) for _, _, differs in kept),
            moved=sum(int(((mean.detach() != before) & differs).sum()) for mean, before, differs in kept),
        )

    def by_hand(self, site: Site | None, dtype: torch.dtype, asked: int, moved: int) -> None:
        """A line of the script moved a tensor towards a parameter; further tensors of the same line are the same move."""
        if site is None:
            return
        known = self._by_line.get((site.path, site.line))
        recorder = self._watcher.recorder
        if known is None:
            known = self._by_line[(site.path, site.line)] = _Average(len(self._models) + len(self._by_line))
        elif known.attempts == self._attempts() and known.backwards == recorder.backwards:  # another parameter's
            return
        elif recorder.chunk - known.chunk > 1:  # windows between were not looked at
            self._remember(known)
            return
        self._tell(known, site, by_hand=True, dtype=dtype, asked=asked, moved=moved)

    def _tell(
        self,
        known: _Average,
        site: Site | None,
        *,
        by_hand: bool,
        dtype: torch.dtype,
        asked: int,
        moved: int,
        made: Site | None = None,
    ) -> None:
        recorder = self._watcher.recorder
        known.moves += 1
        recorder.emit(
            Averaged,
            site=site,
            average=known.number,
            by_hand=by_hand,
            dtype=str(dtype).removeprefix("torch."),
            number=known.moves,
            attempts=self._attempts() - known.attempts,
            completed=sum(recorder.completed.values()) - known.completed,
            asked=asked,
            moved=moved,
            made=made,
            backwards=recorder.backwards - known.backwards,
        )
        self._remember(known)

    def _attempts(self) -> int:
        return sum(self._watcher.recorder.attempts.values())

    def _remember(self, known: _Average) -> None:
        known.attempts, known.completed = self._attempts(), sum(self._watcher.recorder.completed.values())
        known.backwards, known.chunk = self._watcher.recorder.backwards, self._watcher.recorder.chunk
