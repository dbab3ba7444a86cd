"""Gradients that a script changes inside of backward, by hooks on its parameters."""

from __future__ import annotations

import math
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from truestep.audit.events import Edited
from truestep.audit.site import Place, Site

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher


class Hooks:
    """`Tensor.register_hook` of leaves: what each gives back is held against what it was given, while a window is judged."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self.scale = 1.0
        """The loss scale of the backward that runs or ran last."""
        self._told: set[tuple[str, int]] = set()

    def install(self) -> None:
        """Puts the instrument in place."""
        register: Any = torch.Tensor.register_hook
        compared = self._watcher.hook(self._compared)

        @wraps(register)
        def register_hook(tensor: Tensor, hook: Any) -> Any:
            if not (tensor.is_leaf and tensor.requires_grad):
                return register(tensor, hook)

            @wraps(hook)
            def watched(gradient: Tensor) -> Any:
                before = gradient.detach().clone() if self._watcher.recorder.judging else None
                result = hook(gradient)
                if before is not None:
                    compared(tensor, hook, before, gradient if result is None else result)
                return result

            return register(tensor, watched)

        self._watcher.patches.replace(torch.Tensor, "register_hook", register_hook)

    def _compared(self, tensor: Tensor, hook: Any, before: Tensor, after: Any) -> None:
        if not isinstance(after, Tensor) or after.shape != before.shape or torch.equal(before, after):
            return
        site = _site(hook) or self._watcher.recorder.site()
        key = ("", 0) if site is None else (site.path, site.line)
        if key in self._told:
            return
        self._told.add(key)
        old, new = before.flatten().double(), after.detach().flatten().double()
        was, now = float(old.norm()), float(new.norm())
        finite = math.isfinite(was)
        self._watcher.recorder.emit(
            Edited,
            site=site,
            operation="clamp" if _clamped(old, new) else "hook",
            optimizers=tuple(track.number for track in self._watcher.tracks.holding([tensor])),
            carried=self.scale,
            ratio=now / was if finite and was else None,
            cosine=float(torch.dot(old, new)) / (was * now) if finite and was and now else None,
            hid=not finite and math.isfinite(now),
        )


def _clamped(old: Tensor, new: Tensor) -> bool:
    """Whether what changed now has one magnitude, the largest."""
    changed = old != new
    return bool((new[changed].abs() == new.abs().max()).all())


def _site(hook: Any) -> Site | None:
    code = getattr(hook, "__code__", None)
    return None if code is None else Site(place=Place(path=code.co_filename, line=code.co_firstlineno, function=code.co_name))
