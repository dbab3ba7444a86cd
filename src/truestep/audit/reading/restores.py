"""Lines that would restore a scaler's state, and did not run."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from truestep.audit.reading.flow import Item
from truestep.audit.reading.names import Names, path
from truestep.audit.site import Place, Site
from truestep.audit.sources import Sources


def unreached(sources: Sources, near: Site | None, ran: Iterable[Site | None]) -> Place | None:
    """The test that kept a scaler's `load_state_dict` beside the line `near` from running; None where there is none."""
    names = None if near is None else sources.names(near.path)
    owner = None if names is None or near is None else names.text.at(near.place)
    if names is None or near is None or owner is None:
        return None
    scope, known = names.text.scope(owner), {(site.path, site.line) for site in ran if site is not None}
    for node in ast.walk(scope):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "load_state_dict":
            continue
        test = next(iter(names.text.branches(node)), None)
        if test is not None and (near.path, node.lineno) not in known and _of_a_scaler(sources, names, node.func.value):
            return Place(near.path, test.lineno, near.place.function)
    return None


def _of_a_scaler(sources: Sources, names: Names, receiver: ast.expr) -> bool:
    """Whether it was made by a scaler's class, or, where that cannot be followed, is called one."""
    made = sources.flow.derives([Item(node=receiver, names=names)], "GradScaler")
    return made or "scaler" in (path(receiver) or "").lower()
