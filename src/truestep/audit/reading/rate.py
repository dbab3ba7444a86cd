"""Where a script sets the learning rate of an optimizer by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from truestep.audit.reading.names import Names, last
from truestep.audit.reading.text import FUNCTIONS
from truestep.audit.site import Place, Site
from truestep.audit.sources import Sources

KEY = "lr"


def set_at(sources: Sources, step: Site | None) -> Site | None:
    """The line, in the functions that led to the step, that computes or sets the rate; None where none is found."""
    for place in () if step is None else (step.place, *step.callers):
        names = sources.names(place.path)
        owner = None if names is None else names.text.at(place)
        if names is None or owner is None:
            continue
        node = next(_setting(names, names.text.scope(owner)), None)
        if node is not None:
            return Site(place=Place(place.path, node.lineno, place.function))
    return None


def _setting(names: Names, scope: ast.AST) -> Iterator[ast.stmt | ast.expr]:
    """What sets the rate in a function, itself or by a function of the file that it calls."""
    setters = {each.name for each in ast.walk(names.text.tree) if isinstance(each, FUNCTIONS) and any(_stores(each))}
    for node in ast.walk(scope):
        if names.text.scope(node) is not scope:
            continue
        if isinstance(node, ast.Assign) and any(_is_rate(target) for target in node.targets):
            yield _computed(names, node)
        elif isinstance(node, ast.Call) and last(node.func) in setters:
            yield node


def _computed(names: Names, node: ast.Assign) -> ast.stmt:
    """The statement that made the value, where it is a name of its own."""
    made = [each.node for each in names.seen(node.value)] if isinstance(node.value, ast.Name) else []
    return made[-1] if made and isinstance(made[-1], ast.stmt) else node


def _stores(scope: ast.AST) -> Iterator[bool]:
    return (True for node in ast.walk(scope) if isinstance(node, ast.Assign) and any(_is_rate(target) for target in node.targets))


def _is_rate(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript) and last(target) == KEY
