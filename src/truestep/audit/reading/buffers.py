"""Where a module of the script's own writes its buffers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from truestep.audit.reading.names import Names, last, path
from truestep.audit.reading.text import FUNCTIONS
from truestep.audit.site import Place, Site
from truestep.audit.sources import Sources


def written_at(sources: Sources, near: Site, kind: str, buffers: tuple[str, ...]) -> Place | None:
    """The first line of the class `kind` that writes one of `buffers` outside its constructor.

    None where the class is not in the files that led to `near`, or beside them.
    """
    for names in _files(sources, near):
        if kind in names.classes:
            nodes = sorted(_writing(names.classes[kind], buffers), key=lambda found: found[0])
            return Place(names.text.path, *nodes[0]) if nodes else None
    return None


def _files(sources: Sources, near: Site) -> Iterator[Names]:
    """The files that led to a line, and what they import from beside them."""
    for file in dict.fromkeys(place.path for place in (near.place, *near.callers)):
        names = sources.names(file)
        if names is None:
            continue
        yield names
        for module, _, _ in names.imports.values():
            beside = Path(file).parent.joinpath(*module.split(".")).with_suffix(".py")
            other = sources.names(str(beside)) if beside.is_file() else None
            if other is not None:
                yield other


def _writing(kind: ast.ClassDef, buffers: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    wanted = {f"self.{name}" for name in buffers}
    for method in kind.body:
        if not isinstance(method, FUNCTIONS) or method.name == "__init__":
            continue
        for node in ast.walk(method):
            if any(path(target) in wanted for target in _targets(node)):
                yield getattr(node, "lineno", method.lineno), method.name


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """What a node writes: a target, each of several, or the object of a method that works in place."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from target.elts if isinstance(target, (ast.Tuple, ast.List)) else (target,)
    elif isinstance(node, ast.AugAssign):
        yield node.target
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = last(node.func)
        if name.endswith("_") and not name.endswith("__"):
            yield node.func.value
    if isinstance(node, ast.Assign):
        yield from (target.value for target in node.targets if isinstance(target, ast.Subscript))
