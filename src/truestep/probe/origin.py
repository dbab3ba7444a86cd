"""Where a number that is not finite came from: the input, parameter or operation behind a bad value of a forward."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from truestep.probe.finiteness import first_place, has_nan, not_finite
from truestep.probe.node import Node, Unread, saved

Role = Literal["input", "parameter", "constant", "operation"]

TAKE_MASKS = ("softmax", "attention", "logsumexp")
"""Operations that are told by -inf where not to look: a NaN that they make of one is theirs, not their input's."""

PRODUCTS = frozenset({"mm", "addmm", "bmm", "mv", "addmv", "dot", "convolution", "mkldnn_linear"})
"""Operations that no mask goes through: an infinite input that comes to be multiplied by weights is a bad number."""

LARGER_THAN_ANY_FORMAT = frozenset({"exp", "exp2", "expm1", "sinh", "cosh", "to_copy"})
"""Operations whose infinity is always a finite number too large for its format."""

PASSED_OVER = tuple(
    f"{folder}{os.sep}"
    for folder in (Path(torch.__file__).parent, *(Path(__file__).parents[1] / room for room in ("probe", "engine")))
)
"""Where the line that ran an operation is not looked for."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a bad value began with."""

    role: Role
    place: str
    """An input's, parameter's or buffer's name; for an operation the module that ran it, or "the loss" outside of all."""
    text: str
    """What was found there, in words."""
    innocent: bool = False
    """An infinity that somebody put there, as masks do: bad only by what is made of it."""
    overflow: bool = False
    """An operation's finite result that its format cannot hold; else the result is not defined."""


class Site(NamedTuple):
    """An operation where it ran."""

    operation: str
    module: str
    words: str
    """Such as "exp in Exponential '1' (model.py:12)"."""


class Trace:
    """Watches every operation that runs inside `watching`, and knows of each bad tensor where its value came from.

    A bad value comes from what it was computed from: NaN before infinities, and an infinity that somebody put there (a mask) only
    where nothing else was bad. Compiled modules run uncompiled. What leaves torch and comes back, as by NumPy, is a constant.
    """

    def __init__(self, model: nn.Module, inputs: Iterable[tuple[str, Tensor]]) -> None:
        self._model = model
        self._origins: dict[int, Origin] = {}
        self._sites: dict[int, Site] = {}
        self._stack: list[tuple[str, str]] = []
        for name, tensor in inputs:
            self._know("input", name, tensor, innocent=True)
        for name, parameter in model.named_parameters():
            self._know("parameter", name, parameter, innocent=not parameter.requires_grad)
        for name, buffer in model.named_buffers():
            self._know("parameter", name, buffer, innocent=True)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Inside, forwards are watched."""
        hooks = []
        try:
            for name, module in self._model.named_modules():
                if not isinstance(module, torch.jit.ScriptModule):
                    hooks.append(module.register_forward_pre_hook(self._entering(name or "the model")))
                    hooks.append(module.register_forward_hook(self._leaving, always_call=True))
            with _uncompiled(), _Watch(self._ran):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def origin(self, tensor: Tensor) -> Origin | None:
        """Where what is bad in `tensor` came from; None where all of it is finite."""
        value = not_finite(tensor)
        if value is None:
            return None
        return self._origins.get(_memory(tensor)) or _constant(value, innocent=not has_nan(tensor))

    def site(self, node: Node) -> Site | None:
        """Where the operation ran that `node` is the backward of; None where it was not watched."""
        return self._sites.get(node._sequence_nr() + 1)

    def behind(self, node: Node) -> Origin | None:
        """Where the first bad value came from that `node` kept for its backward; None where all that can be read is finite."""
        held = list(getattr(node, "saved_tensors", ()))
        for name in [name for name in dir(node) if name.startswith("_saved_")]:
            try:
                held += tree_leaves(saved(node, name.removeprefix("_saved_")))
            except (Unread, RuntimeError):  # packed by a hook, or written since
                continue
        origins = (self.origin(tensor) for tensor in held if isinstance(tensor, Tensor))
        return next((origin for origin in origins if origin is not None), None)

    def _know(self, role: Role, name: str, tensor: Tensor, *, innocent: bool) -> None:
        value = not_finite(tensor)
        if value is not None:
            innocent = innocent and not has_nan(tensor)
            place = first_place(tensor)
            text = f"it holds {value}" if place is None else f"it holds {value}, first at {place}"
            self._origins[_memory(tensor)] = Origin(role=role, place=name, text=text, innocent=innocent)

    def _entering(self, name: str) -> Callable[..., None]:
        return lambda module, *_: self._stack.append((name, type(module).__name__))

    def _leaving(self, *_: Any) -> None:
        self._stack.pop()

    def _ran(self, operation: Any, args: Any, kwargs: Any) -> Any:
        """Run one operation, and note what it made of what."""
        site = self._here(operation)
        self._sites.setdefault(torch.autograd._get_sequence_nr(), site)  # type: ignore[attr-defined]  # torch's stubs lack it
        given = tree_leaves((args, kwargs))
        writes = operation._schema.is_mutable or "batch_norm" in site.operation  # whose running statistics no schema tells of
        sources = self._bad(given) if writes else None
        result = operation(*args, **kwargs)
        for made in tree_leaves(result):
            if not isinstance(made, Tensor) or (value := not_finite(made)) is None:
                continue
            if site.operation.startswith(("empty", "new_empty")):
                origin = Origin(role="constant", place=site.module, text=f"{site.words} holds what stood there", innocent=True)
            else:
                sources = self._bad(given) if sources is None else sources
                overflows = _overflows(site.operation, value, None if writes else operation, args, kwargs)
                origin = _judged(site, value, has_nan(made), sources, given, overflows=overflows)
            self._origins[_memory(made)] = origin
        return result

    def _bad(self, given: list[Any]) -> list[tuple[bool, Origin]]:
        """Of each bad tensor among `given`: whether it holds a NaN, and where it came from."""
        tensors = [tensor for tensor in given if isinstance(tensor, Tensor)]
        return [(has_nan(tensor), origin) for tensor in tensors if (origin := self.origin(tensor)) is not None]

    def _here(self, operation: Any) -> Site:
        name = operation.overloadpacket.__name__.strip("_").removeprefix("native_")
        module, kind = self._stack[-1] if self._stack else ("the loss", "")
        line = _line_of(sys._getframe())
        where = f"{kind} {module!r}" if kind and module != "the model" else module
        return Site(name, module, f"{name} in {where}" + (f" ({line})" if line else ""))


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    def __init__(self, run: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self._run = run

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._run(func, args, kwargs or {})


def _judged(
    site: Site, value: str, is_nan: bool, sources: list[tuple[bool, Origin]], given: list[Any], *, overflows: bool
) -> Origin:
    """The origin of a bad result: that of what it was made from, or the operation itself."""
    if not sources:
        placed = not is_nan and any(isinstance(number, float) and not math.isfinite(number) for number in given)
        text = f"{site.words} " + (f"put {value} there" if placed else f"made {value} of finite numbers")
        return Origin(role="operation", place=site.module, text=text, innocent=placed, overflow=overflows and not placed)
    held_nan, first = min(sources, key=lambda source: (not source[0], source[1].innocent))
    if first.role == "input" and site.operation in PRODUCTS:
        return replace(first, innocent=False)
    if held_nan or not first.innocent or not is_nan:
        return first
    if first.role == "input" and not any(word in site.operation for word in TAKE_MASKS):
        return replace(first, innocent=False)
    of = first.text if first.role == "operation" else f"{first.place}: {first.text}"
    return Origin(role="operation", place=site.module, text=f"{site.words} made nan of an infinity ({of})")


def _overflows(name: str, value: str, operation: Any, args: Any, kwargs: Any) -> bool:
    """Whether a bad result of finite numbers is one that its format cannot hold: float64 can, or it is an exponential's."""
    if name in LARGER_THAN_ANY_FORMAT:
        return value != "nan"
    if operation is None:
        return False  # run again, it would write again
    devices = {tensor.device for tensor in tree_leaves(args) if isinstance(tensor, Tensor) and tensor.is_cuda}
    try:
        with torch.random.fork_rng(devices):
            results = tree_leaves(operation(*tree_map(_double, args), **tree_map(_double, kwargs)))
    except (RuntimeError, NotImplementedError):
        return False
    return all(not_finite(result) is None for result in results if isinstance(result, Tensor))


def _double(leaf: Any) -> Any:
    return leaf.double() if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf


def _constant(value: str, *, innocent: bool) -> Origin:
    return Origin(role="constant", place="a constant", text=f"it holds {value}", innocent=innocent)


def _memory(tensor: Tensor) -> int:
    """What tells a tensor's memory from another's; views have that of their base.

    Memory that was freed and given out again is known anew when an operation fills it.
    """
    try:
        return tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # sparse tensors have none
        return id(tensor)


def _line_of(frame: FrameType | None) -> str | None:
    """The innermost line of a file that is neither torch's nor ours, such as "train.py:12"."""
    while frame is not None and frame.f_code.co_filename.startswith(PASSED_OVER):
        frame = frame.f_back
    return None if frame is None else f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def _uncompiled() -> AbstractContextManager[object]:
    """Run what torch.compile has wrapped as it is written; nothing where nothing can be compiled yet."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
