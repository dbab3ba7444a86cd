"""Loss scalers: when they scale, unscale, step and move."""

from __future__ import annotations

import weakref
from functools import wraps
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from truestep.audit.events import Restored, ScalerMade, StepCalled, Unscaled, Updated
from truestep.audit.trace.scales import Scales
from truestep.audit.trace.taints import constant
from truestep.audit.trace.tracks import bare

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher


class Scalers:
    """Every scaler that was seen, and which graphs' roots went through one."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._numbers: weakref.WeakKeyDictionary[GradScaler, int] = weakref.WeakKeyDictionary()
        self._count = 0
        self._scales = Scales()
        self.roots: dict[Any, tuple[int, float]] = {}
        self._scaled_in: dict[Any, int] = {}
        """The scaler and the scale behind a node of a graph."""
        self.stepping: int | None = None
        """The scaler whose step is running."""

    def install(self) -> None:
        """Puts the instrument in place."""
        patches = self._watcher.patches
        for name in ("__init__", "scale", "unscale_", "step", "update", "load_state_dict"):
            original = getattr(GradScaler, name)
            wrapped = getattr(self, f"_{name.strip('_')}")(original)
            patches.replace(GradScaler, name, wraps(original)(wrapped))
        self._watcher.recorder.when_closed.append(self._forget)

    def scales(self) -> set[float]:
        """Those of all scalers now."""
        return {self._scale_now(scaler) for scaler in self._numbers}

    def number(self, scaler: GradScaler) -> int:
        """The scaler's own, told as made where it was made before the audit began."""
        if scaler not in self._numbers:
            self._numbers[scaler] = self._count
            self._count += 1
        return self._numbers[scaler]

    def _init(self, original: Any) -> Any:
        def __init__(scaler: GradScaler, *args: Any, **kwargs: Any) -> None:
            original(scaler, *args, **kwargs)
            made(scaler, args, kwargs)

        @self._watcher.hook
        def made(scaler: GradScaler, args: Any, kwargs: Any) -> None:
            self._watcher.recorder.emit(
                ScalerMade,
                site=self._watcher.recorder.site(),
                scaler=self.number(scaler),
                asked=bool(kwargs.get("enabled", args[5] if len(args) > 5 else True)),
                enabled=scaler.is_enabled(),
                device=str(scaler._device),
                scale=float(getattr(scaler, "_init_scale", 1.0)) if scaler.is_enabled() else 1.0,
                growth_interval=int(getattr(scaler, "_growth_interval", 0)) if scaler.is_enabled() else 0,
            )

        return __init__

    def _scale(self, original: Any) -> Any:
        def scale(scaler: GradScaler, outputs: Any) -> Any:
            entering(scaler, outputs)
            self._watcher.operations.pause()
            try:
                result = original(scaler, outputs)
            finally:
                self._watcher.operations.go_on()
            scaled(scaler, result)
            return result

        @self._watcher.hook
        def entering(scaler: GradScaler, outputs: Any) -> None:
            if scaler.is_enabled():
                self._watcher.operations.taints.entered(outputs)

        @self._watcher.hook
        def scaled(scaler: GradScaler, result: Any) -> None:
            scale = self._scale_now(scaler)
            for tensor in [result] if isinstance(result, Tensor) else list(_tensors(result)):
                if scale != 1.0:
                    self._watcher.operations.taints.mark([tensor], scale, "loss")
                if tensor.grad_fn is not None:
                    self.roots[tensor.grad_fn] = (self.number(scaler), scale)
                    self._scaled_in[tensor.grad_fn] = self._watcher.recorder.chunk

        return scale

    def _unscale(self, original: Any) -> Any:
        def unscale_(scaler: GradScaler, optimizer: Any) -> Any:
            inside = self.stepping is not None
            looked(optimizer)
            self._watcher.operations.pause()
            try:
                return original(scaler, optimizer)
            finally:
                self._watcher.operations.go_on()
                unscaled(scaler, optimizer, inside)

        @self._watcher.hook
        def looked(optimizer: Any) -> None:
            self._watcher.optimizers.made_low(self._watcher.tracks.add(optimizer))

        @self._watcher.hook
        def unscaled(scaler: GradScaler, optimizer: Any, inside: bool) -> None:
            track = self._watcher.tracks.add(optimizer)
            looked = scaler.is_enabled() and self._watcher.recorder.judging
            found = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"] if looked else {}
            self._watcher.recorder.emit(
                Unscaled,
                site=self._watcher.recorder.site(),
                scaler=self.number(scaler),
                optimizer=track.number,
                scale=self._scale_now(scaler),
                found_inf=any(bool(value) for value in found.values()),
                inside=inside,
            )
            track.carried = 1.0

        return unscale_

    def _step(self, original: Any) -> Any:
        def step(scaler: GradScaler, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            counts = called(scaler, optimizer, args, kwargs)
            outer, self.stepping = self.stepping, self.number(scaler)
            ended = False
            self._watcher.operations.pause()
            try:
                result = original(scaler, optimizer, *args, **kwargs)
                ended = True
                return result
            finally:
                self._watcher.operations.go_on()
                if ended:
                    over(scaler, optimizer, counts)
                self.stepping = outer
                if ended:
                    self._watcher.optimizers.enough(bare(optimizer))

        @self._watcher.hook
        def called(scaler: GradScaler, optimizer: Any, args: Any, kwargs: Any) -> tuple[int, int]:
            track = self._watcher.tracks.add(optimizer)
            self._watcher.clearings.gone(track)
            self._watcher.recorder.emit(
                StepCalled,
                site=self._watcher.recorder.site(),
                scaler=self.number(scaler),
                optimizer=track.number,
                closure=bool(args) or "closure" in kwargs,
            )
            return track.attempts, self._watcher.recorder.completed[track.number]

        @self._watcher.hook
        def over(scaler: GradScaler, optimizer: Any, counts: tuple[int, int] | None) -> None:
            track = self._watcher.tracks.add(optimizer)
            attempts, completed = counts or (None, None)
            if self._watcher.recorder.completed[track.number] == completed:
                self._scales.skipped(scaler)
            if track.attempts == attempts:  # its own step was not called
                self._watcher.optimizers.skipped(bare(optimizer))

        return step

    def _update(self, original: Any) -> Any:
        def update(scaler: GradScaler, new_scale: Any = None) -> Any:
            before = known(scaler)
            result = original(scaler, new_scale)
            updated(scaler, before, new_scale is not None)
            return result

        @self._watcher.hook
        def known(scaler: GradScaler) -> tuple[float, bool]:
            return self._scale_now(scaler), self._scales.stays(scaler)

        @self._watcher.hook
        def updated(scaler: GradScaler, before_update: tuple[float, bool] | None, by_hand: bool) -> None:
            before, stays = before_update or (self._scale_now(scaler), False)
            self._scales.updated(scaler, stays=stays and not by_hand)
            self._watcher.recorder.emit(
                Updated,
                site=self._watcher.recorder.site(),
                scaler=self.number(scaler),
                before=before,
                after=self._scale_now(scaler),
                by_hand=by_hand,
            )

        return update

    def _load_state_dict(self, original: Any) -> Any:
        def load_state_dict(scaler: GradScaler, state_dict: Any) -> Any:
            result = original(scaler, state_dict)
            restored(scaler)
            return result

        @self._watcher.hook
        def restored(scaler: GradScaler) -> None:
            self._watcher.recorder.emit(Restored, site=self._watcher.recorder.site(), what="scaler", which=self.number(scaler))

        return load_state_dict

    def _scale_now(self, scaler: GradScaler) -> float:
        return self._scales.now(scaler, look=self._watcher.recorder.judging)

    def _forget(self) -> None:
        """A window is closed when the next one's first backward begins, by when more of the next one's losses may be scaled."""
        old = self._watcher.recorder.chunk - 1
        for node in [node for node, chunk in self._scaled_in.items() if chunk < old or node not in self.roots]:
            self._scaled_in.pop(node)
            self.roots.pop(node, None)

    def begun_with(self, seeds: Any) -> tuple[str, int | None, float] | None:
        """What a backward carries that begins with a scaler's scale instead of 1; None where it does not."""
        number = constant(seeds) if seeds is not None and self._numbers else None
        own = [scaler for scaler in self._numbers if number not in (None, 1.0) and self._scale_now(scaler) == number]
        return ("all", self.number(own[0]), self._scale_now(own[0])) if own else None

    def behind(self, *roots: Tensor) -> tuple[str, int | None, float]:
        """Whether all, none or a part of a backward's roots went through a scaler; which one, and its scale."""
        nodes = [root.grad_fn for root in roots if root.grad_fn is not None]
        if not nodes or not self.roots:
            return "none", None, 1.0
        ways = set[tuple[int, float] | None]().union(*(self._ways(node, 200) for node in nodes))
        scaled = [way for way in ways if way is not None]
        if not scaled:
            return "none", None, 1.0
        return ("part" if None in ways else "all"), *scaled[0]

    def _ways(self, node: Any, left: int) -> set[tuple[int, float] | None]:
        """What each addend of a scalar went through."""
        if node in self.roots:
            return {self.roots[node]}
        children = [child for child, _ in node.next_functions if child is not None]
        if left <= 0 or not children or node.name().startswith("AccumulateGrad"):
            return {None}
        ways = set[tuple[int, float] | None]().union(*(self._ways(child, left // len(children) - 1) for child in children))
        adds = node.name().startswith(("Add", "Sub", "Stack", "Cat"))
        return ways if adds else (ways - {None} or {None})


def _tensors(tree: Any) -> Any:
    from torch.utils._pytree import tree_leaves  # noqa: PLC0415 - rarely needed

    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))
