"""What becomes of a value: whether it is put back into original units later, wherever it has gone by then."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from truestep.audit.reading.flow import Flow, Item, returned
from truestep.audit.reading.names import Names, last, parameters, path
from truestep.audit.reading.text import FUNCTIONS, LOOPS, Owner, Scope, own

BY = frozenset({"div", "div_", "mul", "mul_", "true_divide", "divide", "multiply", "lt", "gt", "le", "ge"})


class After:
    """What `start`, a statement, computes, and all that is computed of it in the same file."""

    def __init__(self, names: Names, start: Owner, flow: Flow, methods: tuple[str, ...]) -> None:
        self.names = names
        self.start = start
        self._flow = flow
        self._methods = methods
        self._variables: set[tuple[Scope, str]] = set()
        self._members: set[str] = set()
        self._functions: set[str] = set()

    def undone(self) -> bool:
        """Whether any of it meets something made of `methods` in a product, a quotient or a comparison."""
        if any(self._calls(one) and self._derives(other) for one, other in self._pairs(own(self.start))):
            return True
        self._seed()
        while self._spread():
            pass
        return any(self._of_it(one) and self._derives(other) for one, other in self._pairs(self._later))

    @property
    def returned(self) -> bool:
        """Whether the function that `start` stands in gives it to its caller."""
        return str(getattr(self.names.text.scope(self.start), "name", "")) in self._functions

    def _seed(self) -> None:
        text = self.names.text
        for node in own(self.start):
            for target in _targets(node):
                self._mark(target)
            if isinstance(node, ast.Call):
                self._enter(node, self._calls)
        if isinstance(self.start, ast.Return):
            self._functions.add(str(getattr(text.scope(self.start), "name", "<lambda>")))

    def _spread(self) -> bool:
        """Once more from what is known to what is made of it; false where nothing new was found."""
        before = len(self._variables), len(self._members), len(self._functions)
        for node in self._later:
            value = getattr(node, "iter", None) or getattr(node, "value", None) or getattr(node, "context_expr", None)
            if isinstance(value, ast.expr) and self._of_it(value):
                for target in _targets(node):
                    self._mark(target)
            if isinstance(node, ast.Call):
                self._enter(node, self._of_it)
                if any(self._of_it(each) for each in node.args):
                    for target in _targets(node):
                        self._mark(target)
            if isinstance(node, FUNCTIONS) and any(self._of_it(each) for each in returned(node)):
                self._functions.add(node.name)
        return before != (len(self._variables), len(self._members), len(self._functions))

    @cached_property
    def _later(self) -> list[ast.AST]:
        """All nodes of the file but those that come before `start` in its own function, outside of its loops."""
        text, start = self.names.text, self.start
        scope = text.scope(start)
        loops = [rung.parent for rung in text.climb(start) if isinstance(rung.parent, LOOPS)]
        first = loops[-1].lineno if loops and isinstance(loops[-1], LOOPS) else _line(start)
        return [node for node in ast.walk(text.tree) if _line(node) >= first or (_line(node) and text.scope(node) is not scope)]

    def _mark(self, target: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for each in target.elts:
                self._mark(each)
        elif isinstance(target, ast.Name):
            text = self.names.text
            scopes = list(text.outer(text.scope(target)))
            self._variables.add((next((each for each in scopes if self._has(each, target.id)), scopes[0]), target.id))
        elif isinstance(target, ast.Attribute):
            self._members.add(target.attr)
        elif isinstance(target, (ast.Subscript, ast.Starred)):
            self._mark(target.value)

    def _has(self, scope: Scope, name: str) -> bool:
        return name in self.names.variables.get(scope, {}) or name in parameters(scope)

    def _enter(self, call: ast.Call, holds: Callable[[ast.AST], bool]) -> None:
        """Into the parameters of a function of the file that is called with it."""
        for function in self.names.functions.get(last(call.func), ()):
            names = parameters(function)
            names = names[1:] if names[:1] in (["self"], ["cls"]) else names
            for name, value in [*zip(names, call.args, strict=False), *((each.arg, each.value) for each in call.keywords)]:
                if name in names and holds(value):
                    self._variables.add((function, name))

    def _of_it(self, node: ast.AST) -> bool:
        text = self.names.text
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                scopes = text.outer(text.scope(each))
                owner = next((scope for scope in scopes if self._has(scope, each.id)), None)
                if owner is not None and (owner, each.id) in self._variables:
                    return True
            elif (isinstance(each, ast.Attribute) and each.attr in self._members and path(each)) or (
                isinstance(each, ast.Call) and last(each.func) in self._functions
            ):
                return True
        return False

    def _calls(self, node: ast.AST) -> bool:
        """Whether something is computed in it that is not made of `methods` itself."""
        calls = [last(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)]
        return bool(set(calls) - set(self._methods) - {"float", "item"})

    def _derives(self, node: ast.AST) -> bool:
        return any(self._flow.derives([Item(node=node, names=self.names)], method) for method in self._methods)

    @staticmethod
    def _pairs(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.AST, ast.AST]]:
        for node in nodes:
            for one, other in _operands(node):
                yield one, other
                yield other, one


def _operands(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Mult)):
        yield node.left, node.right
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Div, ast.Mult)):
        yield node.target, node.value
    elif isinstance(node, ast.Compare):
        yield from ((node.left, each) for each in node.comparators)
    elif isinstance(node, ast.Call) and last(node.func) in BY and node.args:
        base = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0]
        yield from ((each, node.args[-1]) for each in (base, node.args[0]) if each is not node.args[-1])


def _targets(node: ast.AST) -> list[ast.expr]:
    """What a node gives a value to."""
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.comprehension)):
        return [node.target]
    if isinstance(node, ast.withitem):
        return [] if node.optional_vars is None else [node.optional_vars]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("append", "extend", "update"):
        return [node.func.value]
    return []


def _line(node: ast.AST) -> int:
    first = node.target if isinstance(node, ast.comprehension) else node.context_expr if isinstance(node, ast.withitem) else node
    return getattr(first, "lineno", 0)
