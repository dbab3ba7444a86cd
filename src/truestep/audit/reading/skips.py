"""How a script asks whether an attempt was skipped: comparisons of the loss scale, uses of what the step returned, guards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from truestep.audit.reading.flow import Flow, Item
from truestep.audit.reading.names import Names
from truestep.audit.reading.text import own
from truestep.audit.site import Place

ASKED = ("get_scale", "isfinite", "isnan", "isinf", "found_inf")
"""What a test of a skip is made of, right or wrong."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two readings of the loss scale that are compared."""

    place: Place
    first: Place
    """The reading that comes first in the text."""
    second: Place
    operator: str

    @property
    def equality(self) -> bool:
        """Whether it asks only if the two differ."""
        return self.operator in ("Eq", "NotEq")


def comparisons(names: Names) -> Iterator[Comparison]:
    """Every comparison of two readings of the scale in one function of the file."""
    for node in ast.walk(names.text.tree):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        sides = [_reading(names, node.left), _reading(names, node.comparators[0])]
        if None in sides:
            continue
        first, second = sorted((side for side in sides if side is not None), key=lambda each: each.lineno)
        if names.text.scope(first) is names.text.scope(second):
            at = [Place(names.text.path, each.lineno) for each in (node, first, second)]
            yield Comparison(place=at[0], first=at[1], second=at[2], operator=type(node.ops[0]).__name__)


def _reading(names: Names, side: ast.expr) -> ast.Call | None:
    """The one call that gave a side the scale; None where there is none, or several."""
    if isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and side.func.attr == "get_scale":
        return side
    if isinstance(side, (ast.Name, ast.Attribute)):
        found = [_reading(names, each.value) for each in names.seen(side) if isinstance(each.value, ast.Call)]
        if len(found) == 1 == len(names.seen(side)):
            return found[0]
    return None


def beside(names: Names, place: Place, lines: set[int]) -> set[int]:
    """Those of the file's lines that stand in one function with a place."""
    scope = _scope(names, place.line)
    return {line for line in lines if _scope(names, line) is scope}


def _scope(names: Names, line: int) -> ast.AST | None:
    owner = names.text.at(Place(names.text.path, line, ""))
    return None if owner is None else names.text.scope(owner)


def tests_of_result(names: Names, place: Place) -> list[Place]:
    """The tests that use what the call at `place` returned: there, or by the name that it was given to."""
    owner = names.text.at(place)
    call = next(iter(names.text.calls(place)), None)
    if owner is None or call is None:
        return []
    here = [rung.parent for rung in names.text.climb(call) if isinstance(rung.parent, (ast.Compare, ast.If, ast.IfExp))]
    if any(isinstance(each, ast.Compare) or call in ast.walk(each.test) for each in here):
        return [Place(names.text.path, call.lineno, place.function)]
    if not isinstance(owner, ast.Assign) or owner.value is not call:
        return []
    found = []
    for node in ast.walk(names.text.scope(owner)):
        test = node.test if isinstance(node, (ast.If, ast.IfExp, ast.While)) else node if isinstance(node, ast.Compare) else None
        uses = [] if test is None else [each for each in ast.walk(test) if isinstance(each, ast.Name)]
        if test is not None and any(definition.value is call for use in uses for definition in names.seen(use)):
            found.append(Place(names.text.path, test.lineno, place.function))
    return list(dict.fromkeys(found))


def hangs_on(names: Names, place: Place, line: int) -> bool:
    """Whether a test that decides about the call at `place` stands on a line, or asks a name that was given its value there."""
    for test in names.text.tests(place):
        uses = [each for each in ast.walk(test) if isinstance(each, (ast.Name, ast.Attribute))]
        nodes = [test, *(definition.value for use in uses for definition in names.seen(use))]
        if any(getattr(each, "lineno", 0) <= line <= (getattr(each, "end_lineno", 0) or 0) for each in nodes):
            return True
    return False


def own_guards(names: Names, place: Place, step: Place | None) -> list[ast.expr]:
    """The tests that decide about the call at `place` and not about the step."""
    shared = set() if step is None else set(names.text.tests(step))
    return [test for test in names.text.tests(place) if test not in shared]


def asks_of_a_skip(flow: Flow, names: Names, test: ast.expr) -> bool:
    """Whether a test was made of the scale, or of whether something is finite."""
    return any(flow.derives([Item(node=test, names=names)], method) for method in ASKED)


def notices_a_change(names: Names, test: ast.expr) -> bool:
    """Whether a test compares something with what it was before, itself or by a name, or asks an object of the script's own."""
    here = list(own(test))
    named = [definition.value for use in here if isinstance(use, ast.Name) for definition in names.seen(use)]
    for node in (*here, *named):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            sides = (node.left, node.comparators[0])
            if any(_was(names, one, other) for one, other in (sides, sides[::-1])):
                return True
    calls = [node for node in here if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    return any(not call.args and not call.keywords for call in calls)


def _was(names: Names, name: ast.expr, now: ast.expr) -> bool:
    """Whether a name was given the same expression's value."""
    wanted = ast.dump(now)
    return isinstance(name, ast.Name) and any(ast.dump(each.value) == wanted for each in names.seen(name))
