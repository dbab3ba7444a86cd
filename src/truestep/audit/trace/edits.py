"""Gradients that the script itself writes between a backward and the step, and averages of weights that it makes by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from truestep.audit.events import Edited
from truestep.audit.trace.tracks import Track, ranks

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher

UNSCALES = 1e-3
"""Relative difference of an edit's ratio from 1 / scale that still makes it an unscaling by hand."""

AVERAGES = frozenset(["add_", "__iadd__", "lerp_", "copy_", "_foreach_add_", "_foreach_lerp_", "addcmul_", "__set__"])


NO_EDITS = frozenset(["zero_", "_foreach_zero_", "detach_", "requires_grad_", "retain_grad"])
"""Writes that leave nothing, or change no number."""


class Edits:
    """Told by memory: what lies where a gradient or a parameter lies is that gradient or parameter."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._gradients: dict[int, tuple[Track, Tensor]] = {}
        self._parameters: dict[int, Tensor] = {}
        self._parts: dict[int, Tensor] = {}

    @property
    def live(self) -> bool:
        """Whether there are gradients to be edited."""
        return bool(self._gradients)

    def gradients_stand(self) -> None:
        """A backward ended: these are the gradients now."""
        self._gradients = {}
        for track in self._watcher.tracks:
            if track.backwards and not track.stale:
                for each in track.parameters:
                    if each.grad is not None and not each.grad.is_sparse:
                        self._gradients[each.grad.data_ptr()] = (track, each)

    def weights_stand(self) -> None:
        """An attempt ended: no gradient is to be edited, and these are the weights now."""
        self._gradients = {}
        self._parameters = {each.data_ptr(): each for track in self._watcher.tracks for each in track.parameters if each.numel()}

    def touching(self, name: str, given: list[Any]) -> list[tuple[Track, Tensor, Tensor]]:
        """The gradients that an operation is about to write, each with a copy."""
        writes = (name.endswith("_") and not name.endswith("__")) or name == "__setitem__" or name.startswith("__i")
        if not writes or not self._gradients or name in NO_EDITS:
            return []
        found = []
        targets = given if name.startswith("_foreach") else given[:1]
        for each in targets:
            known = self._gradient(each)
            if known is not None:
                track, parameter = known
                gradient = parameter.grad
                if gradient is not None:
                    found.append((track, parameter, gradient.detach().clone()))
        return found

    def zeroing(self, name: str, args: Any, *, is_gradient: bool) -> bool:
        """Whether an operation clears a gradient by hand."""
        if name == "__set__":
            return is_gradient and len(args) > 1 and args[1] is None
        return name == "zero_" and self._gradient(args[0]) is not None

    def _gradient(self, tensor: Any) -> tuple[Track, Tensor] | None:
        if not isinstance(tensor, Tensor) or tensor.is_sparse:
            return None
        return self._gradients.get(tensor.data_ptr()) if tensor.numel() else None

    def setting(self, parameter: Any, value: Any) -> list[tuple[Track, Tensor, Tensor]]:
        """Likewise where `.grad` itself is about to be set; setting None is no edit."""
        if not isinstance(value, Tensor) or not isinstance(parameter, Tensor):
            return []
        if parameter.grad is None:
            self._put(parameter)
            return []
        known = self._gradient(parameter.grad)
        return [] if known is None else [(known[0], parameter, parameter.grad.detach().clone())]

    def _put(self, parameter: Tensor) -> None:
        """A gradient is put where none stands, such as the mean of what the script has kept of earlier ones."""
        for track in self._watcher.tracks.holding([parameter]):
            if track.backwards:
                self._watcher.recorder.emit(
                    Edited,
                    site=self._watcher.recorder.site(),
                    operation="set",
                    optimizers=(track.number,),
                    carried=track.carried,
                    ratio=None,
                    cosine=None,
                    hid=False,
                    commutes=True,
                )

    def written(
        self,
        name: str,
        before: list[tuple[Track, Tensor, Tensor]],
        *,
        reduced: bool = False,
        commutes: bool | None = None,
        reshapes: bool = False,
    ) -> None:
        """What the operation made of them, as one edit for each optimizer; a mask that left all of them is one too."""
        site = self._watcher.recorder.site()
        for track in {id(each[0]): each[0] for each in before}.values():
            pairs = [(old, parameter.grad) for other, parameter, old in before if other is track and parameter.grad is not None]
            if not pairs:
                continue
            old = torch.cat([each.detach().flatten().double() for each, _ in pairs])
            new = torch.cat([each.detach().flatten().double() for _, each in pairs])
            if torch.equal(old, new) and not reshapes:
                continue
            was, now = float(old.norm()), float(new.norm())
            finite = math.isfinite(was)
            ratio = now / was if finite and was else None
            cosine = float(torch.dot(old, new)) / (was * now) if finite and was and now else None
            reduced = reduced or self._averages_ranks(ratio, cosine)
            known: dict[str, Any] = {"operation": name.strip("_"), "carried": track.carried, "ratio": ratio, "cosine": cosine}
            self._watcher.recorder.emit(
                Edited,
                site=site,
                hid=not finite and math.isfinite(now),
                reduced=reduced,
                commutes=commutes,
                reshapes=reshapes,
                optimizers=(track.number,),
                **known,
            )
            self._unscaled(track, ratio, cosine)
        if name == "__set__":
            self.gradients_stand()

    def _averages_ranks(self, ratio: float | None, cosine: float | None) -> bool:
        """Whether an edit divided by the number of ranks, which makes an average of their sum."""
        together = ranks()
        along = ratio is not None and cosine is not None and cosine > 1 - UNSCALES
        return together > 1 and along and math.isclose((ratio or 0.0) * together, 1.0, rel_tol=UNSCALES)

    def _unscaled(self, track: Track, ratio: float | None, cosine: float | None) -> None:
        """Gradients divided by their loss scale carry none."""
        if ratio is None or cosine is None or cosine < 1 - UNSCALES or track.carried == 1.0:
            return
        done = track.seen.setdefault("unscaled by hand", {})
        if math.isclose(ratio * track.carried, 1.0, rel_tol=UNSCALES):
            done[len(done)] = True
            if len(done) >= sum(each.grad is not None for each in track.parameters) or len(track.parameters) == 1:
                track.carried, track.seen["unscaled by hand"] = 1.0, {}

    def averaging(self, name: str, given: list[Any], result: Any) -> None:
        """A tensor that is no weight was moved towards one, where nothing is differentiated."""
        if torch.is_grad_enabled() and not any(isinstance(each, Tensor) and not each.requires_grad for each in given[:1]):
            return
        tensors = [each for each in given if isinstance(each, Tensor)]
        weights = [each for each in tensors if self._weight(each) is not None]
        if name in ("mul", "__mul__", "__rmul__") and weights and isinstance(result, Tensor) and not result.requires_grad:
            if any(isinstance(each, float) and 0 < each < 1 for each in given):
                self._parts[result.data_ptr()] = weights[0]
        elif name in AVERAGES and tensors and self._weight(tensors[0]) is None:
            source = weights[0] if weights else self._part(tensors)
            if source is not None and source.shape == tensors[0].shape and self._small(name, given):
                self._watcher.averages.by_hand(self._watcher.recorder.site(), tensors[0].dtype, 0, 0)
        elif name in ("add", "__add__", "__radd__", "lerp") and isinstance(result, Tensor) and not result.requires_grad:
            part = self._part(tensors)
            if part is not None and part.shape == result.shape:
                self._watcher.averages.by_hand(self._watcher.recorder.site(), result.dtype, 0, 0)

    def is_weight(self, tensor: Tensor) -> bool:
        """Whether a tensor is a parameter that some optimizer steps, or lies where it does."""
        return self._weight(tensor) is not None

    def is_gradient(self, tensor: Tensor) -> bool:
        """Whether a tensor lies where a gradient does."""
        return self._gradient(tensor) is not None

    def _small(self, name: str, given: list[Any]) -> bool:
        """A copy is no average; one that is told by a number between 0 and 1 is."""
        return name != "copy_" and any(isinstance(each, float) and 0 < each < 1 for each in given)

    def _weight(self, tensor: Tensor) -> Tensor | None:
        found = self._parameters.get(tensor.data_ptr()) if tensor.numel() else None
        return found if found is not None and found.shape == tensor.shape else None

    def _part(self, tensors: list[Tensor]) -> Tensor | None:
        return next((self._parts[each.data_ptr()] for each in tensors if each.data_ptr() in self._parts), None)

    def forget(self) -> None:
        """A window is over."""
        self._parts = {}
