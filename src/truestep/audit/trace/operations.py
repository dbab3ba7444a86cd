"""Every operation that the script asks of torch, seen while a window is judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from truestep.audit.events import Divisor
from truestep.audit.site import Site
from truestep.audit.trace.edits import Edits
from truestep.audit.trace.numbers import ADDS_EPSILON, Numbers
from truestep.audit.trace.reductions import Reductions
from truestep.audit.trace.rewrites import Rewrites
from truestep.audit.trace.taints import Taints

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher

FACTORS = frozenset(
    [
        "mul",
        "__mul__",
        "__rmul__",
        "div",
        "__truediv__",
        "__rtruediv__",
        "true_divide",
        "multiply",
        "divide",
        "__imul__",
        "__itruediv__",
        "mul_",
        "div_",
    ]
)


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
        self._rewrites = Rewrites(watcher)
        self.reductions = Reductions(watcher)
        self._commutes: bool | None = None
        self._reshapes = False
        self._factors: dict[Any, tuple[Site | None, float | None]] = {}
        self._scalars: dict[Any, Site] = {}
        self._observe_before = watcher.hook(self._before)
        self._observe_after = watcher.hook(self._after)
        self._observe_property = watcher.hook(self._read)
        self._observe_epsilon = watcher.hook(self.numbers.stepping)

    def install(self) -> None:
        """Puts the instrument in place."""
        self._watcher.recorder.when_closed.append(self.edits.forget)
        self._watcher.recorder.when_turned.append(self._turned)
        compile = torch.compile

        def watched_compile(*args: Any, **kwargs: Any) -> Any:
            self._give_way()
            return compile(*args, **kwargs)

        self._watcher.patches.replace(torch, "compile", watched_compile)
        self.reductions.install()
        self._enter()

    def remove(self) -> None:
        """Takes it away."""
        self._leave()

    def pause(self) -> None:
        """What follows is not the script's own doing."""
        self._paused += 1

    def go_on(self) -> None:
        """It is again."""
        self._paused = max(0, self._paused - 1)

    def step_aside(self) -> None:
        """What follows goes by another path where a function mode is on the stack."""
        self._leave()

    def come_back(self) -> None:
        """It has ended."""
        if self._watcher.recorder.judging:
            self._enter()

    @contextmanager
    def unpaused(self) -> Iterator[None]:
        """Inside the `with`, what runs is the script's own doing, whatever called it."""
        paused, self._paused = self._paused, 0
        try:
            yield
        finally:
            self._paused = paused

    def gradients_stand(self) -> None:
        """A backward ended."""
        self._factors.clear()
        self._scalars.clear()
        self.reductions.forget()
        self.numbers.begin()
        if not self._watcher.recorder.judging:
            return
        self.edits.gradients_stand()

    def attempted(self) -> None:
        """An attempt ended."""
        self.reductions.forget()
        self.numbers.begin()
        if self._watcher.recorder.judging:
            self.edits.weights_stand()
        else:
            self._leave()

    def divided(self, root: Tensor) -> Site | None:
        """The last line that multiplied or divided the loss by a number, the scaler aside; a library's where no other did."""
        sites = [site for site, _ in self._multiplied(root) if site is not None]
        return next((site for site in sites if site.library is None), sites[0] if sites else None)

    def divisors(self, root: Tensor) -> tuple[Divisor, ...]:
        """Each number that the loss was divided by and where, the last first."""
        return tuple(Divisor(number=number, site=site) for site, number in self._multiplied(root) if number is not None)

    def computed(self, root: Tensor) -> Site | None:
        """The last line of the user's own that made a scalar of the loss; None where a library made all of it."""
        return next((self._scalars[node] for node in _down(root.grad_fn) if node in self._scalars), None)

    def _multiplied(self, root: Tensor) -> Iterator[tuple[Site | None, float | None]]:
        """Down the graph from the loss, each product with a number that was seen: its line, and what it divides by."""
        yield from (self._factors[node] for node in _down(root.grad_fn) if node in self._factors)

    def ran(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs one operation, and looks at it."""
        name = getattr(func, "__name__", "")
        if self._paused or not self._watcher.recorder.judging or not self._watcher.recorder.active:
            result = func(*args, **kwargs)
            if name in ADDS_EPSILON and self._watcher.optimizers.stepping and self._watcher.recorder.judging:
                self._observe_epsilon(name, _flat(args, kwargs))  # of an optimizer that the script brings along
            return result
        if torch._C._are_functorch_transforms_active():  # a tensor there is many in one, or none: nothing of it can be read
            self._watcher.recorder.cannot_judge("operations inside of vmap, grad and their like", "they run on stand-ins")
            return func(*args, **kwargs)
        if name == "__get__":
            return self._property(func, args, kwargs)
        given = _flat(args, kwargs)
        before = self._observe_before(name, func, args, given)
        result = func(*args, **kwargs)
        self._observe_after(name, func, given, result, before)
        return result

    def _property(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and args and isinstance(args[0], Tensor):
            self._observe_property(func, args, result)
        return result

    def _read(self, func: Any, args: Any, result: Tensor) -> None:
        track = self.edits._gradient(result) if self.edits.live else None
        if track is not None and track[0].carried != 1.0:
            self.taints.mark([result], track[0].carried)
        elif track is not None and self.taints.factor(result) is not None:
            self.taints.mark([result], 1.0)
        elif track is None and getattr(func, "__self__", None) is torch.Tensor.grad and not self.edits.is_weight(args[0]):
            self.taints.mark([result], self._watcher.hooks.scale)
        if self.taints and getattr(func, "__self__", None) is torch.Tensor.data:
            self.taints.follow("detach", list(args), [result])

    def _before(self, name: str, func: Any, args: Any, given: list[Any]) -> tuple[Any, Any, Any]:
        is_gradient = name == "__set__" and getattr(func, "__self__", None) is torch.Tensor.grad
        if (name in ("__set__", "zero_")) and self.edits.zeroing(name, args, is_gradient=is_gradient):
            self._watcher.clearings.note_zero()
        edited = (self.edits.setting(args[0], args[1]) if is_gradient and len(args) > 1 else []) if name == "__set__" else None
        self._commutes, self._reshapes = None, False
        if edited is None:
            edited = self.edits.touching(name, given)
        if edited:
            self._commutes = self.taints.commutes(name, given, edited[0][0].carried)
            self._reshapes = self.taints.reshapes(name, given)
        rewritten = self._rewrites.before(name, func, given)
        return edited, None if name == "__set__" else self.numbers.before(name, given), rewritten

    def _after(self, name: str, func: Any, given: list[Any], result: Any, before: tuple[Any, Any, Any] | None) -> None:
        made = list(result) if isinstance(result, (tuple, list)) else [result]
        edited, kept, rewritten = before or ([], None, None)
        if rewritten is not None:
            self._rewrites.after(name, rewritten)
        if edited:
            self.edits.written(
                name,
                edited,
                reduced=self.reductions.put_back(name, edited),
                commutes=self._commutes,
                reshapes=self._reshapes,
            )
        elif name != "__set__":
            self.edits.averaging(name, given, result)
        if self.taints:
            self.taints.follow(name, given, made)
        if isinstance(result, Tensor) and result.ndim == 0 and result.grad_fn is not None:
            self._scalar(name, given, result)
        if not self.edits.live or torch.is_grad_enabled():
            self.numbers.after(name, func, given, made, kept)

    def _scalar(self, name: str, given: list[Any], result: Tensor) -> None:
        """A loss in the making: which line of the user's own it came from, and what number it was divided by."""
        site = self._watcher.recorder.site()
        if site is not None and site.library is None:
            self._scalars[result.grad_fn] = site
        if name in FACTORS and not any(isinstance(each, Tensor) and each.requires_grad for each in given[1:]):
            self._factors[result.grad_fn] = site, _divisor(name, given)

    def _turned(self) -> None:
        if self._watcher.recorder.judging:
            self._enter()
        else:
            self._leave()

    def _enter(self) -> None:
        if self._mode is None and not self._compiled:
            self._mode = mode = _Mode(self)
            mode.__enter__()  # type: ignore[no-untyped-call]  # torch's is untyped

    def _leave(self) -> None:
        """Off the stack, where it lies on top; below another's mode, and while it hands on a call, it stays and looks away."""
        mode = self._mode
        depth = torch._C._len_torch_function_stack()
        if mode is not None and depth and torch._C._get_function_stack_at(depth - 1) is mode:
            mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]  # likewise
            self._mode = None

    def _give_way(self) -> None:
        """Compiled code would be compiled around the mode: it is taken away for good."""
        self._compiled = True
        self._leave()
        self._watcher.recorder.cannot_judge(
            "operations inside and beside compiled code", "torch.compile is used: calls are seen, single operations are not"
        )


def _down(node: Any) -> Iterator[Any]:
    """Nodes of a graph from a loss down its first branch, as far as a loss's own arithmetic may go."""
    left = 50
    while node is not None and left:
        yield node
        children = [child for child, _ in node.next_functions if child is not None]
        node, left = (children[0] if children else None), left - 1


def _divisor(name: str, given: list[Any]) -> float | None:
    """What a loss is divided by, or the inverse of what it is multiplied by; None where that is no single number."""
    number = given[1] if len(given) > 1 else None
    if isinstance(number, Tensor) and number.numel() == 1:
        number = float(number.detach())
    if not isinstance(number, (int, float)) or not number:
        return None
    return float(number) if "div" in name else 1 / float(number)


def _flat(args: Any, kwargs: Any) -> list[Any]:
    """The tensors and numbers that an operation was given, in order, lists of them opened."""
    flat: list[Any] = []
    for each in (*args, *kwargs.values()):
        if isinstance(each, (tuple, list)):
            flat += each
        else:
            flat.append(each)
    return flat
