"""Which expression decides whether DDP averages a backward: the test that leads to `no_sync`, or what its flag is given."""

from __future__ import annotations

import ast

from truestep.audit.reading.flow import Flow, Item
from truestep.audit.reading.names import last
from truestep.audit.reading.text import own, repeats
from truestep.audit.site import Place

SWITCHES = ("no_sync", "no_backward_sync")
FLAG = "require_backward_grad_sync"


def decider(flow: Flow, item: Item, place: Place) -> Place:
    """The line of that expression, of the statement `item` at `place` which told DDP not to average; the place itself where
    nothing decides it."""
    statement = item.node
    if isinstance(statement, ast.Assign):
        flags = [each for each in statement.targets if last(each) == FLAG]
        if flags and not isinstance(statement.value, ast.Constant):
            return _of(item.to(statement.value), place)
        return _above(item, place)
    switches = [
        each
        for node in own(statement)
        if isinstance(node, ast.expr)
        for each in flow.origins([item.to(node)])
        if isinstance(each.node, (ast.Attribute, ast.Constant))
        and (last(each.node) or getattr(each.node, "value", "")) in SWITCHES
    ]
    return _above(switches[0], place) if switches else _above(item, place)


def _above(item: Item, place: Place) -> Place:
    """The innermost test that leads to the node this time round; `place` without one."""
    for rung in item.names.text.climb(item.node):
        if isinstance(rung.parent, (ast.If, ast.IfExp)) and rung.field != "test":
            test = rung.parent.test
            return _of(item.to(test), _at(item, test, place))
        if repeats(rung):
            break
    return place


def _of(item: Item, place: Place) -> Place:
    """A test's own line; of a plain name, or its opposite, the line that gave it its value."""
    node = item.node
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node = node.operand
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return place
    given = item.names.seen(node)
    return _at(item, given[0].node, place) if len(given) == 1 and isinstance(given[0].node, ast.Assign) else place


def _at(item: Item, node: ast.AST, place: Place) -> Place:
    scope = item.names.text.scope(node)
    return Place(item.names.text.path, getattr(node, "lineno", place.line), str(getattr(scope, "name", "<module>")))
