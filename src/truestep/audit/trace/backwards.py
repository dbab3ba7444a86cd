"""Backwards: which optimizers each reached, at what loss scale, on top of what, and what its loss is a mean over."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from truestep.audit.events import Backward, Edited, GradientTaken, Healed, Share, Zeroed
from truestep.audit.site import Site
from truestep.audit.trace.shares import read_shares
from truestep.audit.trace.taints import constant
from truestep.audit.trace.tracks import Standing, Track, gradients, norm, ranks, standing

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher


class Backwards:
    """`Tensor.backward`, `torch.autograd.backward` and `torch.autograd.grad`."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._zeroed_at: Site | None = None
        self._zeroed = False
        self._inside = 0
        self.scale = 1.0
        """That of the last backward."""
        self._numbers: dict[frozenset[int], int] = {}
        """A number for each set of parameters that a backward has reached."""
        self._unfit: set[int] = set()
        """The optimizers whose gradients were not finite after the last backward that reached them."""
        self._healed: set[torch.nn.Module] = set()

    def install(self) -> None:
        """Puts the instrument in place."""
        patches, watcher = self._watcher.patches, self._watcher
        backward, grad = torch.autograd.backward, torch.autograd.grad
        before, after = watcher.hook(self._before), watcher.hook(self._after)
        taken = watcher.hook(self._taken)

        @wraps(backward)
        def watched_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside:
                return backward(tensors, *args, **kwargs)
            known = before(tensors, kwargs.get("inputs"))
            self._inside += 1
            try:
                result = backward(tensors, *args, **kwargs)
            finally:
                self._inside -= 1
            after(tensors, known)
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
        if stepping and held and self._zeroed and track.number in self._unfit and math.isfinite(norm(gradients(parameters))):
            self._hidden(track)
            return
        if held and (not self._zeroed or self.stand(track, parameters)):  # zeros may be what the backward gave
            return
        self._watcher.recorder.emit(
            Zeroed,
            site=self._zeroed_at if self._zeroed else None,
            optimizer=track.number,
            dropped=tuple(track.backwards),
            weights_moved=None if track.weights is None else norm(track.weights_now()) != track.weights,
        )
        track.dropped += track.backwards
        track.backwards = []
        track.expected.clear()
        track.carried = 1.0

    def stand(self, track: Track, parameters: Sequence[Tensor]) -> bool:
        """Whether gradients are not all zeros.

        Where no number is to be looked at, those that a step has used are taken to be cleared if the first was written since.
        """
        if not self._watcher.recorder.judging and track.standing:
            now = standing(parameters)
            unwritten = any(now.get(key) == before for key, before in track.standing.items())
            if unwritten or track.stale:
                return unwritten
        return norm(gradients(parameters)) != 0.0

    def _look_again(self) -> None:
        """Buffers that a skipped attempt left unfit, and that the script has put back."""
        modules = self._watcher.modules
        if not self._watcher.recorder.judging:
            return
        for module in set(modules.poisoned) - self._healed:
            if all(bool(torch.isfinite(each).all()) for each in module.buffers(recurse=False) if each.is_floating_point()):
                self._healed.add(module)
                self._watcher.recorder.emit(Healed, module=modules.name(module))

    def _hidden(self, track: Track) -> None:
        """Gradients that were not finite were cleared by hand, and a step uses the others."""
        self._unfit.discard(track.number)
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

    def _before(self, tensors: Any, inputs: Any) -> dict[str, Any]:
        recorder = self._watcher.recorder
        known: dict[str, Any] = {"kept": set(), "standing": {}, "judging": recorder.judging}
        self._watcher.operations.pause()
        for track in self._watcher.tracks:
            if track.backwards and not track.stale:
                self._gone_if_looked(track)
            parameters = track.parameters
            looked = track.stale or self._zeroed
            if any(each.grad is not None for each in parameters) and (not looked or self.stand(track, parameters)):
                known["kept"].add(track.number)
            known["standing"][track.number] = standing(parameters)
            if recorder.judging:
                track.expected.keep(parameters)
        known["zeroed"], self._zeroed = self._zeroed_at if self._zeroed else None, False
        roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        known["root"] = root = roots[0] if roots else None
        known["carried"] = ("none", None, 1.0) if root is None else self._watcher.scalers.behind(*roots)
        self._watcher.hooks.scale = known["carried"][2]
        known["shares"] = self._shares(root, known["carried"][2])
        known["loss"] = _value(root, known["carried"][2]) if recorder.judging else None
        known["divisors"] = self._watcher.operations.divisors(root) if recorder.judging and root is not None else ()
        known["computed"] = self._watcher.operations.computed(root) if recorder.judging and root is not None else None
        known["divided"] = self._watcher.operations.divided(root) if recorder.judging and root is not None else None
        return known

    def _gone_if_looked(self, track: Track) -> None:
        """A gradient that is None is gone; whether one that stands there is all zeros is looked at only after a zero_grad."""
        if self._zeroed or all(each.grad is None for each in track.parameters):
            self.gone(track, stepping=False)

    def _shares(self, root: Tensor | None, scale: float) -> tuple[tuple[Share, ...], str | None]:
        if root is None or not self._watcher.recorder.judging:
            return (), "not looked at"
        return read_shares(root, scale)

    def _after(self, tensors: Any, known: dict[str, Any] | None) -> None:
        self._watcher.operations.go_on()
        if known is None:
            return
        recorder, modules = self._watcher.recorder, self._watcher.modules
        recorder.backwards += 1
        self.scale = known["carried"][2]
        number = recorder.backwards
        carried, scaler, scale = known["carried"]
        site = recorder.site()
        written = {track: _written(track.parameters, known["standing"].get(track.number, {})) for track in self._watcher.tracks}
        first = {track: key for track, keys in written.items() if (key := next(keys, None)) is not None}
        touched = list(first)
        reached = frozenset(first.values()).union(*written.values()) if recorder.judging else None
        held = norm([each for track in touched for each in gradients(track.parameters)]) if recorder.judging else None
        shares, unread = known["shares"]
        forward = modules.take()
        low = self._watcher.autocasts.take()
        event = recorder.emit(
            Backward,
            site=site,
            number=number,
            scaler=scaler,
            scale=scale,
            carried=carried,
            touched=tuple(track.number for track in touched),
            kept=tuple(track.number for track in touched if track.number in known["kept"]),
            loss=known["loss"],
            finite=None if held is None else math.isfinite(held),
            norm=held,
            share=next(iter(shares), None),
            unread=unread,
            divided=known["divided"],
            computed=known["computed"],
            divisors=known["divisors"],
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
            zeroed=known["zeroed"],
            parts=shares,
            reached=None if reached is None else self._numbers.setdefault(reached, len(self._numbers)),
            zeros=_zeros(touched) if recorder.judging and scale == 1.0 and low == "float16" else None,
        )
        for track in touched:
            self._joins(track, event, scale, scaler, begun=known["judging"])
            fit = held is None or math.isfinite(held) or math.isfinite(norm(gradients(track.parameters)))
            (self._unfit.discard if fit else self._unfit.add)(track.number)
        self._look_again()
        for root in [tensors] if isinstance(tensors, Tensor) else tensors:
            self._watcher.scalers.roots.pop(root.grad_fn, None)
        self._watcher.operations.gradients_stand()

    def _joins(self, track: Track, event: Backward, scale: float, scaler: int | None, *, begun: bool) -> None:
        """The backward is one of the track's window; `begun` where it was judged already before it."""
        recorder = self._watcher.recorder
        judging = begun and recorder.judging
        if not track.backwards:
            track.judged = (judging and not track.dropped) or track.judged
            if track.stale and track.number not in event.kept:
                track.expected.clear_right()
        track.judged = track.judged and judging
        if judging:
            track.expected.add(track.parameters, scale)
        if not recorder.judging:
            track.standing = standing(track.parameters, most=1)
        track.backwards.append(event.number)
        track.weights = norm(track.weights_now()) if recorder.judging else None
        track.sites[event.number] = event.site
        track.stale = False
        if event.carried != "none":
            track.carried, track.scaler = scale, scaler

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


def _value(root: Tensor | None, scale: float) -> float | None:
    if root is None or root.numel() != 1:
        return None
    value = float(root.detach())
    return value / scale
