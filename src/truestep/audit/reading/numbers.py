"""Numbers that the text alone gives: what an expression evaluates to, and what a value was divided by."""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from truestep.audit.reading.flow import Flow, Item, returned
from truestep.audit.reading.names import last
from truestep.audit.reading.text import FUNCTIONS

DEEP = 24
"""How many names and operations are followed below one another."""
NEAR = 1e-6
"""Relative difference of two numbers that are the same."""
MANY = 16
"""How many values one expression may have before it counts as unknown."""

BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
CALLS: dict[str, Callable[..., float]] = {"int": int, "float": float, "round": round, "abs": abs, "max": max, "min": min}
SAME = frozenset({"int", "float", "abs", "tensor", "item"})
"""Calls that leave what a value is multiplied and divided by."""


@dataclass(frozen=True, kw_only=True)
class Factor:
    """A part of a product."""

    item: Item
    divides: bool
    multiplied: bool
    """Whether it stands in a product at all."""


class Numbers:
    """Evaluates expressions without running them; `arguments` are those that the script was given."""

    def __init__(self, flow: Flow, arguments: Sequence[str] = ()) -> None:
        self._flow = flow
        self._arguments = tuple(arguments)

    def values(self, item: Item, depth: int = 0) -> frozenset[float]:
        """Every number that the expression can have as far as the text tells; empty where it tells nothing."""
        if depth > DEEP:
            return frozenset()
        found = frozenset(itertools.islice(self._values(item, depth + 1), MANY + 1))
        return found if len(found) <= MANY else frozenset()

    def divided_by(self, items: Sequence[Item], number: float, tolerance: float) -> bool:
        """Whether `number` divides any of `items`, or its inverse multiplies it."""
        return any(
            math.isclose(value, number if factor.divides else 1 / number, rel_tol=tolerance)
            for item in items
            for factor in self.factors(item)
            if factor.multiplied
            for value in self.values(factor.item)
        )

    def multiplied_by(self, items: Sequence[Item], number: float, *, quotient: bool) -> bool:
        """Whether anything that has a part in `items` is a product with `number`, a quotient or one that is written as it is."""
        made = self._divided if quotient else self._written
        for item in self._flow.origins(items):
            node = item.node
            if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, ast.Mult):
                sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
                given = (item.to(side) for side in sides)
                if any(_near(self.values(each), number) and made(each, number) for each in given):
                    return True
        return False

    def _written(self, item: Item, number: float) -> bool:
        """It is a constant, or made of some by no division, as 1 - 0.3 is."""
        constants = (each.node.value for each in self._flow.origins([item]) if isinstance(each.node, ast.Constant))
        return any(_near(_number(each), number) for each in constants) or not self._divided(item, number)

    def _divided(self, item: Item, number: float) -> bool:
        nodes = (each.node for each in self._flow.origins([item]))
        return any(isinstance(each, ast.BinOp) and _divides(each) for each in nodes)

    def factors(self, item: Item, *, divides: bool = False, multiplied: bool = False, depth: int = 0) -> Iterator[Factor]:
        """What `item` is a product of, followed through names; products within it are given whole and in parts."""
        if depth > DEEP:
            return
        yield Factor(item=item, divides=divides, multiplied=multiplied)
        node = item.node
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and isinstance(node.op, (ast.Mult, ast.Div)):
            inverse = divides ^ isinstance(node.op, ast.Div)
            if isinstance(node, ast.BinOp):
                yield from self.factors(item.to(node.left), divides=divides, multiplied=True, depth=depth + 1)
            right = node.right if isinstance(node, ast.BinOp) else node.value
            yield from self.factors(item.to(right), divides=inverse, multiplied=True, depth=depth + 1)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and self.values(item.to(node.right)) == {-1}:
            yield from self.factors(item.to(node.left), divides=not divides, multiplied=True, depth=depth + 1)
        else:
            for each in self._passed(item):
                yield from self.factors(each, divides=divides, multiplied=multiplied, depth=depth + 1)

    def _passed(self, item: Item) -> list[Item]:
        """What has the same value as `item`."""
        node = item.node
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return self._given(item)
        if isinstance(node, ast.IfExp):
            return [item.to(node.body), item.to(node.orelse)]
        if isinstance(node, (ast.UnaryOp, ast.NamedExpr)):
            return [item.to(node.operand if isinstance(node, ast.UnaryOp) else node.value)]
        if isinstance(node, ast.Call):
            if last(node.func) in SAME and node.args:
                return [item.to(node.args[0])]
            return [value for each in self._given(item.to(node.func)) for value in _results(each)]
        return []

    def _given(self, item: Item) -> list[Item]:
        if isinstance(item.node, ast.Name):
            return self._flow.definitions(item)
        if isinstance(item.node, (ast.Attribute, ast.Subscript)):
            return self._flow.exact(item) or self._flow.members(item)
        return []

    def _values(self, item: Item, depth: int) -> Iterator[float]:
        node = item.node
        if isinstance(node, ast.Constant):
            yield from _number(node.value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            yield from (-value for value in self.values(item.to(node.operand), depth))
        elif isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            left, right = self.values(item.to(node.left), depth), self.values(item.to(node.right), depth)
            for pair in itertools.product(left, right):
                yield from _applied(BINARY[type(node.op)], pair)
        elif isinstance(node, ast.Call):
            yield from self._called(item, node, depth)
        else:
            given = self._passed(item)
            if any(isinstance(each.node, ast.AugAssign) for each in given):
                return
            option = self._option(item) if isinstance(node, ast.Attribute) else ()
            for each in (*given, *option):
                yield from self.values(each, depth)

    def _called(self, item: Item, node: ast.Call, depth: int) -> Iterator[float]:
        name = last(node.func)
        if name in CALLS and node.args:
            for values in itertools.product(*(self.values(item.to(each), depth) for each in node.args)):
                yield from _applied(CALLS[name], values)
        elif name == "len" and len(node.args) == 1:
            for each in (item.to(node.args[0]), *self._passed(item.to(node.args[0]))):
                if isinstance(each.node, (ast.List, ast.Tuple, ast.Set)):
                    yield float(len(each.node.elts))
        elif name in ("get", "getenv", "getattr", "field"):
            fallback = [each.value for each in node.keywords if each.arg == "default"] or node.args[1:][-1:]
            yield from (value for each in fallback for value in self.values(item.to(each), depth))
        else:
            yield from (value for each in self._passed(item) for value in self.values(each, depth))

    def _option(self, item: Item) -> list[Item]:
        """What the command line gives an attribute: by the script's own arguments, or as the option's default."""
        found = []
        for call in item.names.calls.get("add_argument", ()):
            flags = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            names = {flag.lstrip("-").replace("-", "_") for flag in flags}
            dest = self._flow.argument(Item(node=call, names=item.names), "dest")
            names |= {str(each.node.value) for each in dest if isinstance(each.node, ast.Constant)}
            if last(item.node) in names:
                given = self._given_option(flags)
                default = self._flow.argument(Item(node=call, names=item.names), "default")
                found += [item.to(ast.Constant(value=given))] if given is not None else default
        return found

    def _given_option(self, flags: Sequence[str]) -> str | None:
        for before, argument in zip(("", *self._arguments), self._arguments, strict=False):
            flag, equals, value = argument.partition("=")
            if equals and flag in flags:
                return value
            if before in flags:
                return argument
        return None


def _divides(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.Div) or (isinstance(node.op, ast.Pow) and isinstance(node.right, ast.UnaryOp))


def _results(item: Item) -> list[Item]:
    """What a function, or a lambda, gives when it is called."""
    if isinstance(item.node, FUNCTIONS):
        return [item.to(each) for each in returned(item.node)]
    return [item.to(item.node.body)] if isinstance(item.node, ast.Lambda) else []


def _near(values: Iterable[float], number: float) -> bool:
    return any(math.isclose(value, number, rel_tol=NEAR) for value in values)


def _number(value: object) -> Iterator[float]:
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        yield from _applied(float, (value,))


def _applied(function: Callable[..., float], values: Sequence[object]) -> Iterator[float]:
    try:
        found = function(*values)
    except (ArithmeticError, ValueError, TypeError):
        return
    if isinstance(found, (int, float)):
        yield float(found)
