"""Where each name, attribute and key of a file gets its values, and which of them a line can see."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass

from truestep.audit.reading.text import FUNCTIONS, LOOPS, Scope, Text

MUTATORS = frozenset({"append", "appendleft", "extend", "add", "insert", "update", "setdefault"})


@dataclass(frozen=True, kw_only=True)
class Definition:
    """One way in which something gets a value."""

    name: str
    """The whole target: `x`, `self.limit`, `config['accum']`."""
    value: ast.AST
    """What it is given; the whole statement of an augmented assignment."""
    node: ast.AST
    """What has to have run first: the statement, or the target of a loop."""
    adds: bool
    """Whether what it was before still has a part in it."""


class Names:
    """All definitions of a file."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.variables: dict[Scope, dict[str, list[Definition]]] = defaultdict(lambda: defaultdict(list))
        self.members: dict[str, list[Definition]] = defaultdict(list)
        """Of attributes and constant keys, by their last part."""
        self.functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = defaultdict(list)
        self.classes: dict[str, ast.ClassDef] = {}
        self.imports: dict[str, tuple[str, str | None, int]] = {}
        """Local name -> module, the name in it (None for the module itself), and the dots before it."""
        self.calls: dict[str, list[ast.Call]] = defaultdict(list)
        self._elsewhere: dict[Scope, set[str]] = defaultdict(set)
        nodes = list(ast.walk(text.tree))
        for node in nodes:
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                self._elsewhere[text.scope(node)].update(node.names)
        for node in nodes:
            self._read(node)

    def seen(self, use: ast.expr) -> list[Definition]:
        """The definitions of the name or of the dotted path `use` that can have given it its value there."""
        name = path(use)
        if name is None:
            return []
        if not isinstance(use, ast.Name):
            here = self.text.scope(use)
            return self._reaching(use, [each for each in self.members[last(use)] if each.name == name and self._in(each, here)])
        for index, scope in enumerate(self.text.outer(self.text.scope(use))):
            if name in self.variables.get(scope, {}):
                found = self.variables[scope][name]
                return self._reaching(use, found) if index == 0 else found
            if name in parameters(scope):
                return []
        return []

    def parameter(self, use: ast.Name) -> Scope | None:
        """The function whose parameter the name is; None where it is none."""
        for scope in self.text.outer(self.text.scope(use)):
            if use.id in parameters(scope):
                return scope
            if use.id in self.variables.get(scope, {}):
                return None
        return None

    def _in(self, definition: Definition, scope: Scope) -> bool:
        return self.text.scope(definition.node) is scope

    def _reaching(self, use: ast.AST, found: list[Definition]) -> list[Definition]:
        """Those that come before `use`, or in a loop that both are in, and after the last that replaces all others."""
        chain = {(id(rung.parent), rung.field) for rung in self.text.climb(use)}
        around = self._loops(use)
        before = [each for each in found if _after(each.node) <= _start(use)]
        sure = [each for each in before if not (each.adds or _comprehends(each)) and self._block(each) in chain]
        latest = max(sure, key=lambda each: _after(each.node), default=None)
        inside = set() if latest is None else self._loops(latest.node)
        kept = []
        for each in found:
            if _comprehends(each):
                kept.append(each)
            elif each in before:
                if latest is None or _after(each.node) >= _after(latest.node):
                    kept.append(each)
            elif (self._loops(each.node) & around) - inside:
                kept.append(each)
        return kept

    def _loops(self, node: ast.AST) -> set[int]:
        return {id(rung.parent) for rung in self.text.climb(node) if isinstance(rung.parent, LOOPS)} | (
            {id(node)} if isinstance(node, LOOPS) else set()
        )

    def _block(self, definition: Definition) -> tuple[int, str] | None:
        """The block all of which comes after the definition."""
        for rung in self.text.climb(definition.node):
            if isinstance(rung.parent, LOOPS) and rung.field == "target":
                return id(rung.parent), "body"
            if isinstance(rung.parent, (ast.With, ast.AsyncWith)) and rung.field == "items":
                return id(rung.parent), "body"
            if isinstance(rung.child, ast.stmt):
                return id(rung.parent), rung.field
        return None

    def _read(self, node: ast.AST) -> None:
        if isinstance(node, FUNCTIONS):
            self.functions[node.name].append(node)
        elif isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                self.imports[alias.asname or alias.name.partition(".")[0]] = (alias.name, None, 0)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.imports[alias.asname or alias.name] = (node.module or "", alias.name, node.level)
        elif isinstance(node, ast.Call):
            self._read_call(node)
        else:
            self._read_binding(node)

    def _read_call(self, node: ast.Call) -> None:
        name = last(node.func)
        self.calls[name].append(node)
        if isinstance(node.func, ast.Attribute) and (name in MUTATORS or (name.endswith("_") and not name.endswith("__"))):
            for value in (*node.args, *(keyword.value for keyword in node.keywords)):
                self._bind(node.func.value, value, node, adds=True)

    def _read_binding(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node.value, node)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind(node.target, node.value, node)
        elif isinstance(node, ast.AugAssign):
            self._bind(node.target, node, node, adds=True)
        elif isinstance(node, ast.NamedExpr):
            self._bind(node.target, node.value, node)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self._bind(node.target, node.iter, node.target)
        elif isinstance(node, ast.comprehension):
            self._bind(node.target, node.iter, node)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, node.context_expr, node.optional_vars)
        elif isinstance(node, ast.Match):
            for each in (each for case in node.cases for each in ast.walk(case.pattern)):
                if isinstance(each, (ast.MatchAs, ast.MatchStar)) and each.name:
                    self._define(self.text.scope(node), each.name, node.subject, each, adds=True)

    def _bind(self, target: ast.expr, value: ast.AST, node: ast.AST, *, adds: bool = False) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            plain = not any(isinstance(each, ast.Starred) for each in target.elts)
            for index, each in enumerate(target.elts):
                part = value.elts[index] if same and plain and isinstance(value, (ast.Tuple, ast.List)) else value
                self._bind(each, part, node, adds=adds)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, value, node, adds=adds)
        elif isinstance(target, ast.Name):
            self._define(self.text.scope(node), target.id, value, node, adds=adds)
        elif isinstance(target, (ast.Attribute, ast.Subscript)):
            name = path(target)
            if name is not None:
                self.members[last(target)].append(Definition(name=name, value=value, node=node, adds=adds))
            if isinstance(target, ast.Subscript):
                self._bind(target.value, value, node, adds=True)

    def _define(self, scope: Scope, name: str, value: ast.AST, node: ast.AST, *, adds: bool) -> None:
        if name in self._elsewhere[scope]:
            scope = next(
                (each for each in list(self.text.outer(scope))[1:] if name in self.variables.get(each, {})), self.text.tree
            )
        definition = Definition(name=name, value=value, node=node, adds=adds)
        self.variables[scope][name].append(definition)
        if isinstance(scope, ast.ClassDef):
            self.members[name].append(definition)


def path(node: ast.AST) -> str | None:
    """A name with its attributes and constant keys, as text; None for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = path(node.value)
        return None if base is None else f"{base}.{node.attr}"
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        base = path(node.value)
        return None if base is None else f"{base}[{node.slice.value!r}]"
    return None


def last(node: ast.AST) -> str:
    """The last part of a path: the attribute, the key, or the name; empty for any other expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return node.id if isinstance(node, ast.Name) else ""


def parameters(scope: Scope) -> list[str]:
    """The names of a function's parameters, in order; those that only take keywords, `*args` and `**kwargs` last."""
    if isinstance(scope, (ast.ClassDef, ast.Module)):
        return []
    named = [each.arg for each in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)]
    return named + [each.arg for each in (scope.args.vararg, scope.args.kwarg) if each is not None]


def default(scope: Scope, name: str) -> ast.expr | None:
    """The default value of a parameter; None where it has none."""
    if isinstance(scope, (ast.ClassDef, ast.Module)):
        return None
    positional = [each.arg for each in (*scope.args.posonlyargs, *scope.args.args)]
    given = dict(zip(reversed(positional), reversed(scope.args.defaults), strict=False))
    by_keyword = dict(zip([each.arg for each in scope.args.kwonlyargs], scope.args.kw_defaults, strict=True))
    return given.get(name, by_keyword.get(name))


def _comprehends(definition: Definition) -> bool:
    return isinstance(definition.node, ast.comprehension)


def _start(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _after(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0
