"""One file as a syntax tree: the statement a line belongs to, the call on it, and the tests and loops it stands under."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple, TypeAlias

from truestep.audit.site import Place

Owner: TypeAlias = ast.stmt | ast.ExceptHandler | ast.match_case
Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.Module

OWNERS = (ast.stmt, ast.ExceptHandler, ast.match_case)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
EXITS = (ast.Continue, ast.Break, ast.Return, ast.Raise)
UNNAMED = {ast.Lambda: "<lambda>", ast.Module: "<module>"}


class Rung(NamedTuple):
    """One step up the tree: `child` stands in `field` of `parent`."""

    child: ast.AST
    field: str
    parent: ast.AST


def parsed(path: str, source: str) -> Text | None:
    """The file's tree; None where it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the script's own compilation has said it
            return Text(path, source, ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class Text:
    """A parsed file."""

    def __init__(self, path: str, source: str, tree: ast.Module) -> None:
        self.path = path
        self.source = source
        self.tree = tree
        self.lines = source.split("\n")
        self._above: dict[ast.AST, tuple[str, ast.AST]] = {}
        for node in ast.walk(tree):
            for field, value in ast.iter_fields(node):
                for child in value if isinstance(value, list) else (value,):
                    if isinstance(child, ast.AST):
                        self._above[child] = (field, node)

    def climb(self, node: ast.AST) -> Iterator[Rung]:
        """From `node` up to the function's own body, or the class's, or the file's; that last step included."""
        while node in self._above:
            field, parent = self._above[node]
            yield Rung(node, field, parent)
            if field == "body" and isinstance(parent, Scope):
                return
            node = parent

    def scope(self, node: ast.AST) -> Scope:
        """The function, class or file whose body `node` stands in."""
        parents = [rung.parent for rung in self.climb(node)]
        return parents[-1] if parents and isinstance(parents[-1], Scope) else self.tree

    def outer(self, scope: Scope) -> Iterator[Scope]:
        """The scopes that a name of `scope` is looked up in: itself, then the functions around it, then the file."""
        yield scope
        while not isinstance(scope, ast.Module):
            scope = self.scope(scope)
            if not isinstance(scope, ast.ClassDef):
                yield scope

    def owner(self, node: ast.AST) -> Owner | None:
        """The statement that `node` stands in, itself included."""
        while not isinstance(node, OWNERS):
            if node not in self._above:
                return None
            node = self._above[node][1]
        return node

    @cached_property
    def _owners(self) -> dict[Owner, tuple[int, int]]:
        """Every statement with the first and the last line of its own: of a compound one, its head."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, OWNERS):
                head = [each for each in own(node) if each is not node or not self.compound(node)]
                lines = [each.lineno for each in (node, *head) if hasattr(each, "lineno")]
                ends = [end for each in head if (end := getattr(each, "end_lineno", None)) is not None]
                if lines:
                    found[node] = min(lines), max([*ends, lines[0]])
        return found

    def extent(self, owner: Owner) -> tuple[int, int]:
        """The first and the last line of a statement's own text."""
        return self._owners[owner]

    @staticmethod
    def compound(owner: ast.AST) -> bool:
        """Whether there are statements in it."""
        return bool(getattr(owner, "body", None) or getattr(owner, "cases", None)) and isinstance(owner, OWNERS)

    def at(self, place: Place) -> Owner | None:
        """The statement whose own text is on the line; of several, one with a call in the function that is named."""
        return next(iter(self.all_at(place)), None)

    def all_at(self, place: Place) -> list[Owner]:
        """Likewise, all that stand beside one another there, with a `;` between them."""
        on = [node for node, (first, last) in self._owners.items() if first <= place.line <= last]
        here = [node for node in on if self._named(node, place)] or on
        calling = [node for node in here if any(isinstance(each, ast.Call) for each in own(node))]
        deep = {node: len(list(self._up(node))) for node in here}
        deepest = max((deep[node] for node in calling or here), default=0)
        beside = [node for node in here if deep[node] == deepest]
        return sorted(beside, key=lambda node: node not in calling)

    def calls(self, place: Place) -> tuple[ast.Call, ...]:
        """The calls on the line, in the function that is named; a call of several lines is on each of them."""
        calls = [node for owner in self.all_at(place) for node in own(owner) if isinstance(node, ast.Call)]
        calls = [call for call in calls if self._within(call, place)] or calls
        return tuple([call for call in calls if call.lineno <= place.line <= (call.end_lineno or call.lineno)] or calls)

    def anchor(self, place: Place) -> ast.AST | None:
        """The node that stands for what was called there: of its calls the one under the most conditions."""
        calls = self.calls(place)
        return max(calls, key=lambda call: len(list(self._choices(call))), default=self.at(place))

    def tests(self, place: Place) -> tuple[ast.expr, ...]:
        """Every test in the function that decides whether the call is reached, innermost first."""
        anchor = self.anchor(place)
        return () if anchor is None else tuple(self.tests_of(anchor))

    def tests_of(self, node: ast.AST) -> Iterator[ast.expr]:
        """Likewise, of a node: of each `if` around it, either branch, and of each that ends in leaving before it."""
        for rung in self.climb(node):
            yield from _decides(rung)
            yield from self.exits(rung)

    def branches(self, node: ast.AST) -> Iterator[ast.expr]:
        """The tests of each `if` that `node` stands in, either branch."""
        for rung in self.climb(node):
            if isinstance(rung.parent, ast.If) and rung.field != "test":
                yield rung.parent.test

    def exits(self, rung: Rung, by: tuple[type[ast.stmt], ...] = EXITS) -> Iterator[ast.expr]:
        """The tests of each `if` before `rung.child` in its block that leaves the block, last first."""
        block = getattr(rung.parent, rung.field)
        if isinstance(block, list) and isinstance(rung.child, ast.stmt):
            for each in reversed(block[: block.index(rung.child)]):
                if isinstance(each, ast.If) and (_ends(each.body, by) or _ends(each.orelse, by)):
                    yield each.test

    def _up(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self._above:
            node = self._above[node][1]
            yield node

    def _choices(self, call: ast.Call) -> Iterator[ast.expr]:
        """The tests within its own statement that decide whether the call is made."""
        for rung in self.climb(call):
            if isinstance(rung.child, OWNERS):
                return
            yield from _decides(rung)

    def _named(self, owner: Owner, place: Place) -> bool:
        return _name(self.scope(owner)) == _short(place) or any(self._within(each, place) for each in own(owner))

    def _within(self, node: ast.AST, place: Place) -> bool:
        names = [_name(self.scope(node))]
        for rung in self.climb(node):
            if isinstance(rung.parent, COMPREHENSIONS):
                names.append("<comprehension>")
        wanted = "<comprehension>" if _short(place) in _COMPREHENSION_FRAMES else _short(place)
        return wanted in names


_COMPREHENSION_FRAMES = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})


def own(owner: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement's own text: itself, and its expressions, but not the statements in it."""
    yield owner
    for child in ast.iter_child_nodes(owner):
        if not isinstance(child, OWNERS):
            yield from own(child)


def tests_above(rung: Rung) -> ast.expr | None:
    """The test under whose own branch, not the else, `rung.child` stands."""
    if isinstance(rung.parent, (ast.If, ast.IfExp)) and rung.field == "body":
        return rung.parent.test
    if isinstance(rung.parent, ast.BoolOp) and isinstance(rung.parent.op, ast.And):
        return next(_decides(rung), None)
    if isinstance(rung.parent, COMPREHENSIONS):
        return next(_decides(rung), None)
    return None


def repeats(rung: Rung) -> bool:
    """Whether `rung.child` runs once each round of the loop, or of the comprehension, above it."""
    if isinstance(rung.parent, COMPREHENSIONS):
        return rung.field != "generators"
    return isinstance(rung.parent, LOOPS) and rung.field in ("body", "test")


def lists_parts(iterated: ast.expr) -> bool:
    """Whether a loop's head lists what it goes over, one by one, other than as plain numbers; by `zip` and `enumerate` too."""
    if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Name) and iterated.func.id in ("zip", "enumerate"):
        return any(lists_parts(each) for each in iterated.args)
    return isinstance(iterated, (ast.Tuple, ast.List)) and not all(isinstance(each, ast.Constant) for each in iterated.elts)


def _decides(rung: Rung) -> Iterator[ast.expr]:
    parent = rung.parent
    if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and rung.field != "test":
        yield parent.test
    elif isinstance(parent, ast.BoolOp) and isinstance(rung.child, ast.expr):
        yield from parent.values[: parent.values.index(rung.child)]
    elif isinstance(parent, COMPREHENSIONS) and rung.field != "generators":
        yield from (test for generator in parent.generators for test in generator.ifs)
    elif isinstance(parent, ast.match_case) and rung.field == "body" and parent.guard is not None:
        yield parent.guard
    elif isinstance(parent, ast.Match) and rung.field == "cases":
        yield parent.subject


def _ends(block: list[ast.stmt], by: tuple[type[ast.stmt], ...]) -> bool:
    return bool(block) and isinstance(block[-1], by)


def _name(scope: Scope) -> str:
    return UNNAMED.get(type(scope)) or str(getattr(scope, "name", ""))


def _short(place: Place) -> str:
    return place.function.rpartition(".")[2]
