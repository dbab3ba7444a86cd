"""Catches the gradient at the optimizer: what each one is given at the moment of its step, whoever called it and however."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


class Arrival:
    """Inside, keeps the gradients that `optimizers` step with, by parameter name, in original units.

    A fused optimizer that is handed `grad_scale` divides by it in its kernel, and with `found_inf` set does nothing: what it
    gets is divided here in the same way, or counts as no step. An optimizer that is given a closure has its gradient after the
    closure's first evaluation. The first step of each optimizer is kept, and further ones are counted.

    Args:
        names: the names of parameters by their ids, looked up anew where `known` lacks one.
        known: names of parameters that live at least as long as this.
    """

    def __init__(
        self, optimizers: Sequence[Optimizer], names: Callable[[], Mapping[int, str]], *, known: Mapping[int, str]
    ) -> None:
        self._optimizers, self._names, self._known = tuple(optimizers), names, known
        self.gradients: dict[str, Tensor] = {}
        self.steps = [0] * len(self._optimizers)
        self.withheld = [False] * len(self._optimizers)
        """A fused optimizer was stepped with `found_inf`, and did nothing."""
        self.evaluated = False
        """An optimizer was given a closure."""
        self._depth = 0
        self._handles: list[Any] = []

    def __enter__(self) -> Arrival:
        """Hooks on; the last of those before a step, so that what other hooks change is seen."""
        for place, optimizer in enumerate(self._optimizers):
            self._handles.append(optimizer.register_step_pre_hook(self._before(place)))
            self._handles.append(optimizer.register_step_post_hook(self._after))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Hooks off."""
        for handle in self._handles:
            handle.remove()

    @property
    def stepped(self) -> bool:
        """Whether any optimizer was given its gradient and used it."""
        return any(self.steps)

    @property
    def stepping(self) -> bool:
        """Whether an optimizer is in the middle of its step."""
        return self._depth > 0

    def _before(self, place: int) -> Callable[[Optimizer, Any, Any], Any]:
        def before(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self._depth += 1
            if self._depth > 1:  # a subclass that calls its parent's step
                return None
            found_inf, divisor = getattr(optimizer, "found_inf", None), getattr(optimizer, "grad_scale", None)
            if found_inf is not None and bool(found_inf):
                self.withheld[place] = True
                return None
            self.steps[place] += 1
            if self.steps[place] > 1:
                return None
            closure = args[1] if len(args) > 1 else kwargs.get("closure")  # args[0] is the optimizer
            if closure is None:
                self._keep(optimizer, divisor)
                return None
            self.evaluated = True
            watched = self._watched(closure, optimizer, divisor)
            return ((args[0], watched, *args[2:]), kwargs) if len(args) > 1 else (args, {**kwargs, "closure": watched})

        return before

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._depth -= 1

    def _watched(self, closure: Callable[[], Any], optimizer: Optimizer, divisor: Tensor | None) -> Callable[[], Any]:
        evaluations = 0

        def watched() -> Any:
            nonlocal evaluations
            value = closure()
            evaluations += 1
            if evaluations == 1:
                self._keep(optimizer, divisor)
            return value

        return watched

    def _keep(self, optimizer: Optimizer, divisor: Tensor | None) -> None:
        held = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        names = self._known if all(id(p) in self._known for p in held) else self._names()
        for p in held:
            gradient = p.grad.detach()
            dense = gradient if gradient.layout is torch.strided else gradient.to_dense()  # elements that are not stored are 0
            self.gradients[names[id(p)]] = dense.clone() if divisor is None else dense / divisor  # a step may write into its own
