"""Every operation that the script asks of torch, seen while a window is judged."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from truestep.audit.site import Site
from truestep.audit.trace.edits import Edits
from truestep.audit.trace.numbers import Numbers
from truestep.audit.trace.taints import Taints

if TYPE_CHECKING:
    from truestep.audit.trace.watch import Watcher

FACTORS = frozenset("mul __mul__ __rmul__ div __truediv__ __rtruediv__ true_divide multiply divide __imul__ __itruediv__ mul_ div_".split())


class _Mode(TorchFunctionMode):
    """Hands each call on; what it does otherwise is the operations' own."""

    def __init__(self, operations: Operations) -> None:
        super().__init__()
        self._operations = operations

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._operations.ran(func, args, kwargs or {})


class Operations:
    """A function mode that is on the stack while windows are judged, and looks away inside of torch's own machinery."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._mode: _Mode | None = None
        self._paused = 0
        self._compiled = False
        self.taints = Taints(watcher)
        self.edits = Edits(watcher)
        self.numbers = Numbers(watcher)
        self._factors: dict[Any, Site | None] = {}
        self._observe_before = watcher.hook(self._before)
        self._observe_after = watcher.hook(self._after)

    def install(self) -> None:
        self._watcher.recorder.when_closed.append(self._closed)
        compile = torch.compile

        def watched_compile(*args: Any, **kwargs: Any) -> Any:
            self._give_way()
            return compile(*args, **kwargs)

        self._watcher.patches.replace(torch, "compile", watched_compile)
        self._watch_reductions()
        self._enter()

    def remove(self) -> None:
        self._leave()

    def pause(self) -> None:
        """What follows is not the script's own doing."""
        self._paused += 1

    def go_on(self) -> None:
        """It is again."""
        self._paused = max(0, self._paused - 1)

    def gradients_stand(self) -> None:
        """A backward ended."""
        self._factors.clear()
        self.numbers.begin()
        if not self._watcher.recorder.judging:
            return
        self.edits.gradients_stand()

    def attempted(self) -> None:
        """An attempt ended."""
        self.numbers.begin()
        if self._watcher.recorder.judging:
            self.edits.weights_stand()

    def divided(self, root: Tensor) -> Site | None:
        """The last line that multiplied or divided the loss by a number, the scaler aside."""
        node, left = root.grad_fn, 50
        while node is not None and left:
            if node in self._factors:
                return self._factors[node]
            children = [child for child, _ in node.next_functions if child is not None]
            node, left = (children[0] if children else None), left - 1
        return None

    def ran(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs one operation, and looks at it."""
        if self._paused or not self._watcher.recorder.judging or not self._watcher.recorder.active:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name == "__get__":
            return self._property(func, args, kwargs)
        given = _flat(args, kwargs)
        before = self._observe_before(name, func, args, given)
        result = func(*args, **kwargs)
        self._observe_after(name, func, given, result, before)
        return result

    def _property(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and args and isinstance(args[0], Tensor) and self.edits.live:
            track = self.edits._gradient(result)
            if track is not None and track[0].carried != 1.0:
                self.taints.mark([result], track[0].carried)
            elif track is not None and self.taints.factor(result) is not None:
                self.taints.mark([result], 1.0)
        return result

    def _before(self, name: str, func: Any, args: Any, given: list[Any]) -> tuple[Any, Any]:
        is_gradient = name == "__set__" and getattr(func, "__self__", None) is torch.Tensor.grad
        if (name in ("__set__", "zero_")) and self.edits.zeroing(name, args, is_gradient=is_gradient):
            self._watcher.backwards.note_zero()
        if name == "__set__":
            return (self.edits.setting(args[0], args[1]) if is_gradient and len(args) > 1 else []), None
        return self.edits.touching(name, given), self.numbers.before(name, given)

    def _after(self, name: str, func: Any, given: list[Any], result: Any, before: tuple[Any, Any] | None) -> None:
        made = list(result) if isinstance(result, (tuple, list)) else [result]
        edited, kept = before or ([], None)
        if edited:
            self.edits.written(name, edited)
        elif name != "__set__":
            self.edits.averaging(name, given, result)
        if self.taints:
            self.taints.follow(name, given, made)
        if name in FACTORS and isinstance(result, Tensor) and result.ndim == 0 and result.grad_fn is not None:
            if not any(isinstance(each, Tensor) and each.requires_grad for each in given[1:]):
                self._factors[result.grad_fn] = self._watcher.recorder.site()
        if not self.edits.live or torch.is_grad_enabled():
            self.numbers.after(name, func, given, made, kept)

    def _closed(self) -> None:
        self.edits.forget()
        if self._watcher.recorder.judging and not self._compiled:
            self._enter()
        elif self._mode is not None and not self._watcher.recorder.judging:
            self._leave()

    def _enter(self) -> None:
        if self._mode is None and not self._compiled:
            self._mode = _Mode(self)
            self._mode.__enter__()

    def _leave(self) -> None:
        """Off the stack, where it lies on top; below another's mode it stays, and only looks away."""
        mode = self._mode
        depth = torch._C._len_torch_function_stack()
        if mode is not None and depth and torch._C._get_function_stack_at(depth - 1) is mode:
            mode.__exit__(None, None, None)
            self._mode = None

    def _give_way(self) -> None:
        """Compiled code would be compiled around the mode: it is taken away for good."""
        self._compiled = True
        self._leave()
        self._watcher.recorder.cannot_judge(
            "operations inside and beside compiled code", "torch.compile is used: calls are seen, single operations are not"
        )

    def _watch_reductions(self) -> None:
        """`all_reduce` of a gradient by hand is an edit, though a rightful one."""
        if not torch.distributed.is_available():
            return
        distributed = sys.modules["torch.distributed"]
        original = distributed.all_reduce
        touching, written = self._watcher.hook(self.edits.touching), self._watcher.hook(self.edits.written)

        def all_reduce(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            before = touching("all_reduce_", [tensor]) or []
            result = original(tensor, *args, **kwargs)
            if before and not kwargs.get("async_op"):
                written("all_reduce", before, reduced=True)
            return result

        self._watcher.patches.replace(distributed, "all_reduce", all_reduce)


def _flat(args: Any, kwargs: Any) -> list[Any]:
    """The tensors and numbers that an operation was given, in order, lists of them opened."""
    flat: list[Any] = []
    for each in (*args, *kwargs.values()):
        if isinstance(each, (tuple, list)):
            flat += each
        else:
            flat.append(each)
    return flat
