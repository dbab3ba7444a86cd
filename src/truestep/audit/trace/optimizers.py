"""Optimizers: each attempt, whether it completed, what gradient it was given, and what the right one would have done."""

from __future__ import annotations

import math
import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.hooks import RemovableHandle

from truestep.audit.events import Judged, LowParameters, OddGradients, OptimizerMade, Stepped
from truestep.audit.trace.shadow import compared, number, put_right, shadow_step
from truestep.audit.trace.tracks import LOW, Track, gradients, norm, standing

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher

AGREES = 0.01
"""Relative difference of a gradient from the right one that is looked into."""

SHADOWS = 6
"""Shadow steps of one optimizer, at most."""


class UpdatesReached(SystemExit):
    """As many attempts were made as the audit was asked for."""


class Optimizers:
    """The hooks that torch calls around each optimizer's own step."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._handles: list[RemovableHandle] = []
        self.stepping = 0
        """How deep in optimizers' own steps the process is."""

    def install(self) -> None:
        """Puts the instrument in place."""
        original = Optimizer.__init__
        watcher = self._watcher

        @wraps(original)
        def __init__(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            know(optimizer)

        know = watcher.hook(self.know)
        watcher.patches.replace(Optimizer, "__init__", __init__)
        before, after = watcher.hook(self._before), watcher.hook(self._after)
        if "torch._dynamo" in sys.modules:
            disable: Any = torch.compiler.disable
            before, after = disable(before), disable(after)
        self._handles = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(self._ending(after))]

    def remove(self) -> None:
        """Takes it away."""
        for handle in self._handles:
            handle.remove()

    def know(self, optimizer: Optimizer) -> Track:
        """Tells of an optimizer where it is new."""
        track = self._watcher.tracks.of(optimizer)
        if track is not None:
            return track
        self._watcher.recorder.trains_here()
        track = self._watcher.tracks.add(optimizer)
        defaults = optimizer.defaults
        group = optimizer.param_groups[0] if optimizer.param_groups else {}
        self._watcher.recorder.emit(
            OptimizerMade,
            site=self._watcher.recorder.site(),
            optimizer=track.number,
            kind=type(optimizer).__name__,
            fused=bool(group.get("fused")),
            parameters=len(track.parameters),
            lr=number(group.get("lr")) or 0.0,
            eps=number(defaults.get("eps")),
            momentum=number(defaults.get("momentum")),
        )
        return track

    def skipped(self, optimizer: Optimizer) -> None:
        """A scaler ended an attempt without calling the optimizer's own step."""
        track = self.know(optimizer)
        self._tell(track, optimizer, completed=False, finite=False, judged=None, closure=False)

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Looks at the gradients before the step; of one with a closure, which makes them inside of it, after that."""
        self.stepping += 1
        track = self.know(optimizer)
        self._watcher.operations.pause()
        self._watcher.clearings.gone(track)
        this, *given = args
        closure = given[0] if given else kwargs.get("closure")
        track.seen = {"closure": closure is not None}
        if closure is None:
            self._look(track, optimizer)
            return None
        watched = self._watched(closure, track, optimizer)
        return ((this, watched, *given[1:]), kwargs) if given else (args, {**kwargs, "closure": watched})

    def _watched(self, closure: Any, track: Track, optimizer: Optimizer) -> Any:
        """The closure, which is the script's own doing; an optimizer may call it several times, and uses what the last one left.

        Called once it is a part of the loop like any other, as in libraries that run the whole loop inside of one.
        """
        look, given_up = self._watcher.hook(self._look), self._watcher.hook(self._given_up)
        calls = 0

        @wraps(closure)
        def watched(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            try:
                with self._watcher.operations.unpaused():
                    result = closure(*args, **kwargs)
            except BaseException:
                given_up()
                raise
            calls += 1
            track.seen["closure"] = calls > 1
            look(track, optimizer)
            return result

        return watched

    def _given_up(self) -> None:
        """A step ends with its closure's exception: there is none after it."""
        self.stepping -= 1
        self._watcher.operations.go_on()

    def _look(self, track: Track, optimizer: Optimizer) -> None:
        """At the gradients that the optimizer is about to use, beside the right ones."""
        if not self._watcher.recorder.judging:
            return
        self._precisions(track)
        parameters = track.parameters
        given = gradients(parameters)
        track.seen["bare"], track.seen["unset"] = not given, _momentum_unset(optimizer)
        track.seen["finite"] = math.isfinite(norm(given))
        divide_by = number(getattr(optimizer, "grad_scale", None)) or 1.0
        if track.judged and track.backwards and track.seen["finite"]:
            track.seen["judged"] = judged = track.expected.judge(parameters, divide_by)
            if judged is not None and not judged.agrees(AGREES) and self._watcher.settings.right:
                put_right(track, divide_by)
            elif judged is not None and not judged.agrees(AGREES):
                self._shadow(track, optimizer, judged)
        low = [each for each in parameters if each.dtype in LOW and each.grad is not None]
        needed = parameters if "right" in track.seen else low
        track.seen["start"] = [(each, each.detach().clone()) for each in needed]

    def _shadow(self, track: Track, optimizer: Optimizer, judged: Judged) -> None:
        """The update that the right gradient makes, from the same state; everything is put back.

        A step that is not torch's own may do anything, which nobody could put back: it is not taken.
        """
        searches = isinstance(optimizer, torch.optim.LBFGS)  # steps by calling the closure, which no shadow may
        foreign = not type(optimizer).step.__module__.startswith("torch.optim.")
        if searches or foreign or track.seen_shadows >= SHADOWS or number(getattr(optimizer, "found_inf", None)):
            return
        track.seen_shadows += 1
        right, _ = track.expected.right(track.parameters)
        track.seen["right"] = shadow_step(optimizer, track.parameters, right)

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self.stepping -= 1
        self._watcher.operations.go_on()
        track = self.know(optimizer)
        seen, track_found = track.seen, number(getattr(optimizer, "found_inf", None))
        self._tell(
            track,
            optimizer,
            completed=not track_found,
            finite=False if track_found else seen.get("finite"),
            judged=seen.get("judged"),
            closure=bool(seen.get("closure")),
        )

    def _tell(
        self, track: Track, optimizer: Optimizer, *, completed: bool, finite: bool | None, judged: Judged | None, closure: bool
    ) -> None:
        recorder = self._watcher.recorder
        recorder.attempts[track.number] += 1
        recorder.completed[track.number] += completed
        damage, moved = compared(track, optimizer) if completed else (None, None)
        recorder.emit(
            Stepped,
            site=recorder.site(),
            optimizer=track.number,
            scaler=self._watcher.scalers.stepping,
            completed=completed,
            closure=closure,
            fused=bool(optimizer.param_groups and optimizer.param_groups[0].get("fused")),
            lr=self._rate(track, optimizer),
            backwards=tuple(track.backwards),
            dropped=tuple(track.dropped),
            carried=1.0 if getattr(optimizer, "grad_scale", None) is not None else track.carried,
            finite=finite,
            judged=judged,
            damage=damage,
            moved=moved,
            first=track.attempts == 0,
            bare=bool(track.seen.get("bare")),
            unset=bool(track.seen.get("unset")),
        )
        track.attempts += 1
        track.reset()
        if not recorder.judging:
            track.standing = standing(track.parameters, most=1)
        self._watcher.modules.attempted(completed=completed)
        if not completed:
            recorder.watch_closely()
        self._watcher.operations.attempted()

    def _rate(self, track: Track, optimizer: Optimizer) -> float:
        """The first group's; one that is a tensor is read where the window is judged, since that may wait for a device."""
        lr = optimizer.param_groups[0].get("lr")
        if track.lr is None or self._watcher.recorder.judging or not isinstance(lr, Tensor):
            track.lr = number(lr) or 0.0
        return track.lr

    def _ending(self, after: Any) -> Any:
        """The post hook, which alone may end the script: after as many attempts as were asked for."""

        def hook(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            after(optimizer, args, kwargs)
            self.enough(optimizer)

        return hook

    def enough(self, optimizer: Optimizer) -> None:
        """Ends the script where as many attempts were made as were asked for."""
        most, track = self._watcher.settings.max_updates, self._watcher.tracks.of(optimizer)
        if most is not None and track is not None and track.attempts >= most and self._watcher.recorder.active:
            raise UpdatesReached(0)

    def _precisions(self, track: Track) -> None:
        """Tells once which parameters are kept in a low precision, and where they were made so."""
        self._watcher.operations.numbers.cuts.settle(track)
        by_dtype: dict[torch.dtype, list[Tensor]] = {}
        for each in track.parameters:
            if each.dtype in LOW and each.requires_grad:
                by_dtype.setdefault(each.dtype, []).append(each)
        for dtype, parameters in by_dtype.items():
            if dtype not in track.told:
                track.told.add(dtype)
                self._watcher.recorder.emit(
                    LowParameters,
                    site=self._watcher.modules.cast_at(parameters[0]),
                    optimizer=track.number,
                    dtype=str(dtype).removeprefix("torch."),
                    parameters=len(parameters),
                )

    def made_low(self, track: Track) -> None:
        """Likewise, and of gradients that no scaler can unscale, before a step that may fail on them."""
        self._precisions(track)
        if "odd" in track.told:
            return
        held = [(each, each.grad) for each in track.parameters if each.grad is not None]
        odd: dict[Literal["complex", "sparse float16"], list[Tensor]] = {
            "complex": [each for each, gradient in held if gradient.is_complex()],
            "sparse float16": [each for each, gradient in held if gradient.is_sparse and gradient.dtype == torch.float16],
        }
        for what, parameters in odd.items():
            if parameters:
                track.told.add("odd")
                self._watcher.recorder.emit(
                    OddGradients,
                    site=self._watcher.modules.cast_at(parameters[0]),
                    optimizer=track.number,
                    what=what,
                    parameters=len(parameters),
                )


def _momentum_unset(optimizer: Optimizer) -> bool:
    """Whether the optimizer has momentum, and a parameter with a gradient has none of it yet."""
    groups = [group for group in optimizer.param_groups if group.get("momentum")]
    held = [each for group in groups for each in group["params"] if each.grad is not None]
    return any(optimizer.state.get(each, {}).get("momentum_buffer") is None for each in held)
