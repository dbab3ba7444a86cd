"""Giving the optimizers their gradient, all of them or none: averaged, unscaled and clipped by one multiplication."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.gradients import FLOAT32_MAX, FLOAT32_TINY, elements_of, multiply
from truestep.engine.parameters import parameters_of
from truestep.errors import StateError

Closure = Callable[[], Tensor]


def step(optimizers: Sequence[Optimizer], gradients: list[Tensor], factor: float, closure: Closure | None) -> None:
    """Apply the update with `gradients` times `factor`, which afterwards are the gradients in original units.

    A fused optimizer divides by its `grad_scale` in the pass that it makes anyway; any other gets one `foreach`
    multiplication. Both round once. A divisor that float32 does not hold is multiplied in, whatever the optimizer.
    """
    device = gradients[0].device
    divides = [factor != 1.0 and FLOAT32_TINY <= 1.0 / factor <= FLOAT32_MAX and _can_divide(each) for each in optimizers]
    if any(divides):
        others = [optimizer for optimizer, itself in zip(optimizers, divides, strict=True) if not itself]
        gradients = elements_of([p.grad for p in parameters_of(*others)])
    if gradients:
        multiply(gradients[::-1], factor)  # the norm left the last in the processor's cache, and the step begins with the first
    for optimizer, itself in zip(optimizers, divides, strict=True):
        if itself:
            _divide_and_step(optimizer, torch.full((), 1.0 / factor, dtype=torch.float32, device=device))
        elif closure is not None:
            optimizer.step(closure)  # type: ignore[arg-type]  # torch's says float, and LBFGS wants a tensor
        else:
            optimizer.step()


def _can_divide(optimizer: Optimizer) -> bool:
    return getattr(optimizer, "_step_supports_amp_scaling", False) and all(g.get("fused") for g in optimizer.param_groups)


def _is_fused(optimizer: Optimizer) -> bool:
    return any(group.get("fused") for group in optimizer.param_groups)


def _divide_and_step(optimizer: Any, divisor: Tensor) -> None:
    optimizer.grad_scale = divisor
    try:
        optimizer.step()
    finally:
        del optimizer.grad_scale


class AllOrNone:
    """What an exception inside a step leaves: everything as before where a copy was kept, else an update that refuses to go on.

    A copy of weights and optimizer state is kept for the first step, in which most faults show, in the host's memory, so that the
    peak of a CUDA device is none the higher; and for every step that evaluates the loss again, on the device. An ordinary step
    pays for none. One that raises before it has written anything leaves nothing to be mended.
    """

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        self._optimizers = optimizers
        self._proven = False
        self.torn: str | None = None
        """The exception that ended a step halfway; None: there was none, or a state has been loaded since."""

    @contextmanager
    def __call__(self, params: Sequence[Parameter], *, undoable: bool = False) -> Iterator[None]:
        """One step of all optimizers."""
        kept = _Kept(self._optimizers, params, on_host=not undoable) if undoable or not self._proven else None
        silent = any(map(_is_fused, self._optimizers))  # whose kernels move no version
        before = None if kept is not None or silent else self._written(params)
        try:
            yield
        except BaseException as error:
            if kept is not None:
                kept.restore()
            elif silent or self._written(params) != before:
                self.torn = f"{type(error).__name__}: {error}"
            raise
        self._proven = True

    def demand_whole(self) -> None:
        """StateError after a step that an exception ended halfway."""
        if self.torn is not None:
            raise StateError(
                f"an exception ended a step halfway, and some parameters may have moved without the others ({self.torn})",
                hint="restore a checkpoint: model, optimizer, then update.load_state_dict(...)",
            )

    def _written(self, params: Sequence[Parameter]) -> list[object]:
        """What moves as soon as a step writes: the weights' versions, and those of the state that it comes to first."""
        held = [value for state in map(_first_state, self._optimizers) for value in state.values() if isinstance(value, Tensor)]
        return [*(p._version for p in params), *((id(value), value._version) for value in held)]


def _first_state(optimizer: Optimizer) -> dict[str, Any]:
    """The state of the first parameter that has a gradient: a step writes it before any other, or with all others."""
    reached = (p for group in optimizer.param_groups for p in group["params"] if p.grad is not None)
    state: Any = next((optimizer.state.get(p, {}) for p in reached), {})
    return state if isinstance(state, dict) else {}


class _Aside(NamedTuple):
    """A copy of something, of a dictionary or a list one of each part; and the device where a tensor belongs."""

    copied: Any
    device: torch.device | None = None

    @staticmethod
    def of(value: Any, *, on_host: bool) -> _Aside:
        """A copy of `value`, with its tensors in the host's memory if `on_host`."""
        if isinstance(value, dict):
            return _Aside({key: _Aside.of(each, on_host=on_host) for key, each in value.items()})
        if type(value) in (list, tuple):
            return _Aside(type(value)(_Aside.of(each, on_host=on_host) for each in value))
        if not isinstance(value, Tensor):
            return _Aside(copy.deepcopy(value))
        return _Aside(value.detach().to("cpu" if on_host else value.device, copy=True), value.device)

    def back(self) -> Any:
        """What was copied, where it belongs."""
        if isinstance(self.copied, dict):
            return {key: each.back() for key, each in self.copied.items()}
        if type(self.copied) in (list, tuple):
            return type(self.copied)(each.back() for each in self.copied)
        return self.copied if self.device is None else self.copied.to(self.device)


class _Kept:
    """Weights, state and settings of optimizers, to be put back."""

    def __init__(self, optimizers: Sequence[Optimizer], params: Sequence[Parameter], *, on_host: bool) -> None:
        self._weights = [(p, p.data, _Aside.of(p, on_host=on_host)) for p in params]
        self._optimizers = [
            (
                optimizer,
                {p: _Aside.of(state, on_host=on_host) for p, state in optimizer.state.items()},
                [dict(group) for group in optimizer.param_groups],
            )
            for optimizer in optimizers
        ]

    @torch.no_grad()
    def restore(self) -> None:
        for p, data, values in self._weights:
            p.grad = None  # it may have another format than the weights that return
            p.data = data
            p.copy_(values.back())
        for optimizer, state, groups in self._optimizers:
            put_state(optimizer, {p: held.back() for p, held in state.items()}, groups)


def put_state(optimizer: Optimizer, state: dict[Any, Any], groups: list[dict[str, Any]]) -> None:
    """Make this the optimizer's state, and these the settings of its groups, which stay the same objects."""
    optimizer.state.clear()
    optimizer.state.update(state)
    for group, kept in zip(optimizer.param_groups, groups, strict=True):
        group.clear()
        group.update(kept)
