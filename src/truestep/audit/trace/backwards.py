"""Backwards: which optimizers each reached, at what loss scale, on top of what, and what its loss is a mean over."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from truestep.audit.events import Backward, Divisor, GradientTaken, Healed, Share
from truestep.audit.site import Site
from truestep.audit.trace.shares import read_roots
from truestep.audit.trace.taints import constant
from truestep.audit.trace.tracks import Standing, Track, gradients, norm, ranks, standing

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher


@dataclass(frozen=True, kw_only=True)
class _Before:
    """What stands when a backward begins; what its graph tells, and its loss, where they are looked at."""

    judging: bool
    kept: set[int]
    """The optimizers whose gradients it adds to."""
    standing: dict[int, Standing]
    zeroed: Site | None
    carried: str
    scaler: int | None
    scale: float
    shares: tuple[Share, ...]
    unread: str | None
    loss: float | None
    divisors: Sequence[Divisor]
    computed: Site | None
    divided: Site | None


class Backwards:
    """`Tensor.backward`, `torch.autograd.backward` and `torch.autograd.grad`."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._inside = 0
        self._numbers: dict[frozenset[int], int] = {}
        """A number for each set of parameters that a backward has reached."""
        self._healed: set[torch.nn.Module] = set()

    def install(self) -> None:
        """Puts the instrument in place."""
        patches, watcher = self._watcher.patches, self._watcher
        backward, grad = torch.autograd.backward, torch.autograd.grad
        begins, ends = watcher.hook(self._begins), watcher.hook(self._ends)
        taken = watcher.hook(self._taken)

        @wraps(backward)
        def watched_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return backward(tensors, *args, **kwargs)
            before = begins(tensors, args[0] if args else kwargs.get("grad_tensors"))
            self._inside += 1
            try:
                result = backward(tensors, *args, **kwargs)
            finally:
                self._inside -= 1
            ends(tensors, before)
            return result

        @wraps(grad)
        def watched_grad(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            weights = args[0] if args else kwargs.get("grad_outputs")
            scale = watcher.hook(self._scale_of)(outputs, weights)
            result = grad(outputs, inputs, *args, **kwargs)
            if not self._inside:
                taken(scale, inputs, result, kwargs.get("create_graph", len(args) > 2 and args[2]))
            return result

        patches.replace(torch.autograd, "backward", watched_backward)
        patches.replace(torch.autograd, "grad", watched_grad)

    def _look_again(self) -> None:
        """Buffers that a skipped attempt left unfit, and that the script has put back."""
        modules = self._watcher.modules
        if not self._watcher.recorder.judging:
            return
        for module in set(modules.poisoned) - self._healed:
            if all(bool(torch.isfinite(each).all()) for each in module.buffers(recurse=False) if each.is_floating_point()):
                self._healed.add(module)
                self._watcher.recorder.emit(Healed, module=modules.name(module))

    def _begins(self, tensors: Any, seeds: Any) -> _Before:
        watcher, recorder, operations = self._watcher, self._watcher.recorder, self._watcher.operations
        operations.pause()
        kept, stood = set(), {}
        for track in watcher.tracks:
            if watcher.clearings.kept(track):
                kept.add(track.number)
            stood[track.number] = standing(parameters := track.parameters)
            if recorder.judging:
                track.expected.keep(parameters)
        zeroed = watcher.clearings.take()
        roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        root = roots[0] if roots else None
        begun = watcher.scalers.begun_with(seeds)
        carried, scaler, scale = begun or (("none", None, 1.0) if root is None else watcher.scalers.behind(*roots))
        watcher.hooks.scale = scale
        looked = root if recorder.judging else None
        of_root, seeds = (scale, seeds) if begun is None else (1.0, None)
        shares, unread = ((), "not looked at") if looked is None else read_roots(roots, seeds, of_root)
        return _Before(
            judging=recorder.judging,
            kept=kept,
            standing=stood,
            zeroed=zeroed,
            carried=carried,
            scaler=scaler,
            scale=scale,
            shares=shares,
            unread=unread,
            loss=None if looked is None else _value(looked, of_root),
            divisors=() if looked is None else operations.divisors(looked),
            computed=None if looked is None else operations.computed(looked),
            divided=None if looked is None else operations.divided(looked),
        )

    def _ends(self, tensors: Any, before: _Before | None) -> None:
        self._watcher.operations.go_on()
        if before is None:
            return
        recorder, modules = self._watcher.recorder, self._watcher.modules
        recorder.backwards += 1
        site = recorder.site()
        written = {track: _written(track.parameters, before.standing.get(track.number, {})) for track in self._watcher.tracks}
        first = {track: key for track, keys in written.items() if (key := next(keys, None)) is not None}
        touched = list(first)
        reached = frozenset(first.values()).union(*written.values()) if recorder.judging else None
        held = norm([each for track in touched for each in gradients(track.parameters)]) if recorder.judging else None
        elsewhere = [track for track in touched if track.number in before.kept and track.left_behind()]
        forward = modules.take()
        low = self._watcher.autocasts.take()
        event = recorder.emit(
            Backward,
            site=site,
            number=recorder.backwards,
            scaler=before.scaler,
            scale=before.scale,
            carried=before.carried,
            touched=tuple(track.number for track in touched),
            kept=tuple(track.number for track in touched if track.number in before.kept),
            elsewhere=tuple(track.number for track in elsewhere),
            loss=before.loss,
            finite=None if held is None else math.isfinite(held),
            norm=held,
            share=next(iter(before.shares), None),
            unread=before.unread,
            divided=before.divided,
            computed=before.computed,
            divisors=before.divisors,
            forward=forward.site,
            forwards=forward.calls,
            low=low,
            inside_autocast=self._watcher.autocasts.inside,
            synced=modules.synced,
            ranks=ranks(),
            unsynced=tuple(track.number for track in touched if modules.unsynced(track)),
            unsynced_at=modules.unsynced_at,
            examples=forward.examples,
            tokens=forward.tokens,
            zeroed=before.zeroed,
            parts=before.shares,
            reached=None if reached is None else self._numbers.setdefault(reached, len(self._numbers)),
            zeros=_zeros(touched) if recorder.judging and before.scale == 1.0 and low == "float16" else None,
        )
        for track in elsewhere:
            track.expected.clear_right()
            track.held = 0.0
        for track in touched:
            self._joins(track, event, before)
            track.fit = held is None or math.isfinite(held) or math.isfinite(norm(gradients(track.parameters)))
        self._look_again()
        for root in [tensors] if isinstance(tensors, Tensor) else tensors:
            self._watcher.scalers.roots.pop(root.grad_fn, None)
        self._watcher.operations.gradients_stand()

    def _joins(self, track: Track, event: Backward, before: _Before) -> None:
        """The backward is one of the track's window."""
        recorder = self._watcher.recorder
        judging = before.judging and recorder.judging
        if not track.backwards:
            track.judged = (judging and not track.dropped) or track.judged
            if track.stale and track.number not in event.kept:
                track.expected.clear_right()
        track.judged = track.judged and judging
        if judging:
            track.expected.add(track.parameters, before.scale)
        if not recorder.judging:
            track.standing = standing(track.parameters, most=1)
        track.backwards.append(event.number)
        track.held += math.nan if event.share is None else event.share.weight * event.share.elements
        track.weights = track.weights_now() if recorder.judging else None
        track.sites[event.number] = event.site
        track.stale = False
        if event.carried != "none":
            track.carried, track.scaler = before.scale, before.scaler

    def _scale_of(self, outputs: Any, weights: Any) -> float:
        """The loss scale behind what is differentiated, or that it is multiplied by."""
        roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        scale = self._watcher.scalers.behind(roots[0])[2] if roots else 1.0
        number = constant(weights) if weights is not None and scale == 1.0 else None
        return number if number is not None and number in self._watcher.scalers.scales() else scale

    def _taken(self, scale: float | None, inputs: Any, result: Sequence[Tensor | None], create_graph: bool) -> None:
        given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
        self._watcher.recorder.emit(
            GradientTaken,
            site=self._watcher.recorder.site(),
            scale=scale or 1.0,
            create_graph=bool(create_graph),
            of_parameters=bool(self._watcher.tracks.holding(given)),
        )
        if scale and scale != 1.0:
            self._watcher.operations.taints.mark([each for each in result if each is not None], scale)


def _zeros(touched: Sequence[Track]) -> float | None:
    """The share of elements that are zero, of the gradients of some optimizers."""
    held = [each for track in touched for each in gradients(track.parameters)]
    elements = sum(each.numel() for each in held)
    return sum(int((each == 0).sum()) for each in held) / elements if elements else None


def _written(parameters: Sequence[Tensor], before: Standing) -> Iterator[int]:
    """The parameters whose gradients a backward wrote, or made."""
    for each in parameters:
        gradient = each.grad
        if gradient is not None and before.get(id(each)) != (id(gradient), gradient._version):
            yield id(each)


def _value(root: Tensor, scale: float) -> float | None:
    return float(root.detach()) / scale if root.numel() == 1 else None
