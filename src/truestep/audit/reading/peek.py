"""What an expression is worth in a frame, found by looking: no code of the script is called and no tensor's data read."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from truestep.audit.reading.flow import Item
from truestep.audit.reading.names import Names, last, path
from truestep.audit.reading.numbers import BINARY
from truestep.audit.reading.text import FUNCTIONS, Scope

DEEP = 24
CALLS: dict[str, Callable[..., Any]] = {
    "int": int,
    "float": float,
    "abs": abs,
    "round": round,
    "max": max,
    "min": min,
    "sum": sum,
    "prod": math.prod,
}
TENSORS = (Tensor, torch.nn.Parameter)
PLAIN = (int, float, str, list, tuple, dict, torch.Size, *TENSORS)
"""What a class's own attribute may be for its value to be taken."""


class Unknown(Exception):
    """The expression cannot be told without running code."""


@dataclass(frozen=True, kw_only=True)
class View:
    """A frame, as far as it is looked at."""

    path: str
    function: str
    first: int
    """The line its function begins on."""
    line: int
    """The line that runs: what is defined on a later one has not been yet."""
    variables: Mapping[str, Any]


class Peek:
    """Looks into the frames of a stack, the innermost first."""

    def __init__(self, views: Sequence[View]) -> None:
        self._views = views

    def number(self, item: Item) -> float | None:
        """The number that the expression has, or will have once the lines up to it have run; None where it cannot be told."""
        try:
            found = self._look(item, 0)
        except (Unknown, ArithmeticError, LookupError, TypeError, ValueError, RecursionError):
            return None
        return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None

    def _look(self, item: Item, depth: int) -> Any:
        node = item.node
        if depth > DEEP:
            raise Unknown
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return self._stored(item, node, depth + 1)
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            left, right = self._look(item.to(node.left), depth + 1), self._look(item.to(node.right), depth + 1)
            return BINARY[type(node.op)](_plain(left), _plain(right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -_plain(self._look(item.to(node.operand), depth + 1))
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self._look(item.to(each), depth + 1) for each in node.elts]
        if isinstance(node, ast.Call):
            return self._called(item, node, depth + 1)
        raise Unknown

    def _stored(self, item: Item, node: ast.Name | ast.Attribute | ast.Subscript, depth: int) -> Any:
        view = self._view(item)
        coming = list(_coming(item.names, node, view.line)) if path(node) is not None else []
        whole = [each for each in coming if not isinstance(each, ast.AugAssign)]
        if len(whole) > 1 or any(not isinstance(each, ast.AugAssign) for each in coming[1:]):
            raise Unknown
        value = self._look(item.to(whole[0]), depth) if whole else self._now(item, node, view, depth)
        for each in coming[len(whole) :]:
            assert isinstance(each, ast.AugAssign)
            value = BINARY[type(each.op)](_plain(value), _plain(self._look(item.to(each.value), depth)))
        return value

    def _now(self, item: Item, node: ast.Name | ast.Attribute | ast.Subscript, view: View, depth: int) -> Any:
        if isinstance(node, ast.Name):
            if node.id not in view.variables:
                raise Unknown
            return view.variables[node.id]
        base = self._look(item.to(node.value), depth)
        if isinstance(node, ast.Attribute):
            return _member(base, node.attr)
        return _part(base, node.slice, lambda each: self._look(item.to(each), depth))

    def _called(self, item: Item, node: ast.Call, depth: int) -> Any:
        name = last(node.func)
        if node.keywords:
            raise Unknown
        if isinstance(node.func, ast.Attribute) and name in ("numel", "nelement", "size"):
            shape = _shape(self._look(item.to(node.func.value), depth))
            if name != "size":
                return math.prod(shape)
            return shape[self._look(item.to(node.args[0]), depth)] if node.args else shape
        given = [self._look(item.to(each), depth) for each in node.args]
        if name == "get_world_size" and not given:
            return world()
        if name == "len" and len(given) == 1:
            return len(given[0]) if type(given[0]) in (list, tuple, dict, range, torch.Size) else _shape(given[0])[0]
        if name in CALLS and isinstance(node.func, ast.Name if hasattr(builtins, name) else ast.AST):
            return CALLS[name](*[_plain(each) for each in given])
        raise Unknown

    def _view(self, item: Item) -> View:
        scope = item.names.text.scope(item.node)
        for view in self._views:
            if view.path == item.names.text.path and shows(view, scope):
                return view
        inner = self._views[0] if self._views else None
        if inner is not None and inner.path == item.names.text.path and (path(item.node) or "").startswith("self."):
            around = item.names.text.scope(scope)
            if isinstance(around, ast.ClassDef) and around.lineno <= inner.first <= (around.end_lineno or 0):
                return inner
        raise Unknown


def shows(view: View, scope: Scope) -> bool:
    """Whether the frame is one of the function, or of the file, that `scope` is."""
    if isinstance(scope, FUNCTIONS):
        starts = {scope.lineno, *(each.lineno for each in scope.decorator_list)}
        return view.function == scope.name and view.first in starts
    return isinstance(scope, ast.Module) and view.function == "<module>"


def world() -> int:
    """How many ranks there are; 1 without any."""
    there = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_world_size() if there else 1


def _coming(names: Names, node: ast.expr, line: int) -> Iterator[ast.AST]:
    """The values that the path gets between the line that runs and `node`, in order."""
    here = (node.lineno, node.col_offset)
    found = [each for each in names.seen(node) if line < getattr(each.node, "lineno", 0)]
    found = [each for each in found if (each.node.end_lineno or 0, each.node.end_col_offset or 0) <= here]  # type: ignore[attr-defined]
    for each in sorted(found, key=lambda each: each.node.lineno):  # type: ignore[attr-defined]
        if each.adds and not isinstance(each.value, ast.AugAssign):
            raise Unknown
        yield each.value


def _plain(value: Any) -> Any:
    if type(value) in (int, float):
        return value
    if type(value) in (list, tuple, torch.Size):
        return [_plain(each) for each in value]
    raise Unknown


def _shape(value: Any) -> tuple[int, ...]:
    if type(value) in TENSORS:
        return tuple(value.shape)
    if isinstance(value, _Shape):
        return value.sizes
    raise Unknown


@dataclass(frozen=True)
class _Shape:
    """Of a tensor that the script makes and the audit does not."""

    sizes: tuple[int, ...]


def _member(base: Any, name: str) -> Any:
    """An attribute that is only stored, never computed."""
    if name == "shape":
        return _shape(base)
    for kind in type(base).__mro__:
        if name in kind.__dict__ and type(kind.__dict__[name]) not in PLAIN:
            raise Unknown
    try:
        stored = object.__getattribute__(base, "__dict__")
    except AttributeError:
        raise Unknown from None
    if type(stored) is dict and name in stored:
        return stored[name]
    for kind in type(base).__mro__:
        if name in kind.__dict__:
            return kind.__dict__[name]
    raise Unknown


def _part(base: Any, index: ast.expr, look: Callable[[ast.expr], Any]) -> Any:
    """An element of a plain container, or the shape of a part of a tensor."""
    if type(base) in TENSORS or isinstance(base, _Shape):
        return _cut(_shape(base), index.elts if isinstance(index, ast.Tuple) else [index], look)
    if isinstance(index, ast.Slice):
        return base[_slice(index, look)] if type(base) in (list, tuple, torch.Size) else _raise()
    key = look(index)
    if isinstance(base, dict):
        return dict.__getitem__(base, key)
    return base[key] if type(base) in (list, tuple, torch.Size) else _raise()


def _cut(sizes: tuple[int, ...], indices: Sequence[ast.expr], look: Callable[[ast.expr], Any]) -> _Shape:
    left: list[int] = []
    for place, index in enumerate(indices):
        if isinstance(index, ast.Slice):
            left.append(len(range(*_slice(index, look).indices(sizes[place]))))
        elif type(look(index)) is not int:
            raise Unknown
    return _Shape((*left, *sizes[len(indices) :]))


def _slice(node: ast.Slice, look: Callable[[ast.expr], Any]) -> slice:
    ends = [None if each is None else look(each) for each in (node.lower, node.upper, node.step)]
    if not all(each is None or type(each) is int for each in ends):
        raise Unknown
    return slice(*ends)


def _raise() -> Any:
    raise Unknown
