"""What a script saves, loads and restores: whether the scaler's state goes with the optimizer's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from truestep.audit.events import Loaded, Restored, Saved

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher

SCALER = {"scale", "growth_factor", "backoff_factor", "growth_interval"}
"""The keys of an enabled scaler's state."""


class States:
    """`torch.save`, `torch.load`, and `load_state_dict` of optimizers."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def install(self) -> None:
        """Watches saving, loading and restoring."""
        patches, watcher = self._watcher.patches, self._watcher
        save, load, restore = torch.save, torch.load, Optimizer.load_state_dict
        saved, loaded, restored = watcher.hook(self._saved), watcher.hook(self._loaded), watcher.hook(self._restored)

        @wraps(save)
        def watched_save(obj: Any, *args: Any, **kwargs: Any) -> Any:
            result = save(obj, *args, **kwargs)
            saved(obj)
            return result

        @wraps(load)
        def watched_load(*args: Any, **kwargs: Any) -> Any:
            result = load(*args, **kwargs)
            loaded(result)
            return result

        @wraps(restore)
        def watched_restore(optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            result = restore(optimizer, *args, **kwargs)
            restored(optimizer)
            return result

        patches.replace(torch, "save", watched_save)
        patches.replace(torch, "load", watched_load)
        patches.replace(Optimizer, "load_state_dict", watched_restore)

    def _saved(self, what: Any) -> None:
        held = kinds(what)
        waiting = {number for track in self._watcher.tracks if not track.stale for number in track.backwards}
        self._watcher.recorder.emit(Saved, site=self._watcher.recorder.site(), open=tuple(sorted(waiting)), **held)

    def _loaded(self, what: Any) -> None:
        self._watcher.recorder.emit(Loaded, site=self._watcher.recorder.site(), **kinds(what))

    def _restored(self, optimizer: Optimizer) -> None:
        number = self._watcher.optimizers.know(optimizer).number
        self._watcher.recorder.emit(Restored, site=self._watcher.recorder.site(), what="optimizer", which=number)


def kinds(what: Any) -> dict[str, int]:
    """How many states of models, optimizers, scalers and schedulers a saved object holds, told by their keys."""
    found = {"models": 0, "optimizers": 0, "scalers": 0, "schedulers": 0}
    for kind in _states(what, 4):
        found[kind] += 1
    return found


def _states(what: Any, depth: int) -> Iterator[str]:
    if isinstance(what, nn.Module):
        yield "models"
    elif isinstance(what, Optimizer):
        yield "optimizers"
    elif isinstance(what, torch.amp.GradScaler):
        yield "scalers"
    elif isinstance(what, Mapping):
        keys = set(what)
        if keys >= SCALER:
            yield "scalers"
        elif keys >= {"state", "param_groups"}:
            yield "optimizers"
        elif "last_epoch" in keys:
            yield "schedulers"
        elif keys and all(isinstance(value, Tensor) for value in what.values()):
            yield "models"
        elif depth:
            for value in what.values():
                yield from _states(value, depth - 1)
    elif isinstance(what, (list, tuple)) and depth:
        for value in what:
            yield from _states(value, depth - 1)
