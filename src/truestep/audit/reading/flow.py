"""What a value is made of: followed from name to name, into attributes, callers' arguments and what functions return."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from truestep.audit.reading.names import Definition, Names, default, last, parameters
from truestep.audit.reading.text import FUNCTIONS, Scope, own
from truestep.audit.site import Place

AT_MOST = 20_000
"""Nodes that are looked at for one value; a value that is made of more is left there."""

Load = Callable[[str], Names | None]
Module = Callable[[str, str, int], Names | None]


@dataclass(frozen=True, kw_only=True)
class Item:
    """An expression, or another node, in a file."""

    node: ast.AST
    names: Names
    callers: tuple[Place, ...] | None = None
    """The lines that led to this run of its function, innermost first; None where any may have."""

    def to(self, node: ast.AST) -> Item:
        """Another node of the same run of the same function."""
        return Item(node=node, names=self.names, callers=self.callers)


class Flow:
    """Follows values through files, which it has from `load`, and modules from `module` (by path, name and dots)."""

    def __init__(self, load: Load, module: Module) -> None:
        self._load = load
        self._module = module

    def origins(self, items: Iterable[Item]) -> Iterator[Item]:
        """Every node that has a part in the values of `items`, themselves first."""
        waiting = deque(items)
        known: set[ast.AST] = set()
        while waiting and len(known) < AT_MOST:
            item = waiting.popleft()
            if item.node in known:
                continue
            known.add(item.node)
            yield item
            given, rest = self.sources(item)
            waiting.extend(given)
            waiting.extend(item.to(child) for child in rest)

    def derives(self, items: Iterable[Item], method: str) -> bool:
        """Whether `.method`, or a function of that name, has a part in any of `items`."""
        return any(_mentions(item.node, method) for item in self.origins(items))

    def sources(self, item: Item) -> tuple[list[Item], list[ast.AST]]:
        """What gives a node its value elsewhere, and its own parts that matter."""
        node = item.node
        if isinstance(node, ast.Name):
            return self.definitions(item), []
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            exact = self.exact(item)
            parts: list[ast.AST] = [] if exact else list(ast.iter_child_nodes(node))
            return exact or self.members(item), parts
        if isinstance(node, FUNCTIONS):
            return [], list(returned(node))
        return [], list(ast.iter_child_nodes(node))

    def definitions(self, item: Item) -> list[Item]:
        """What gives a name its value: assignments, an argument, an imported module's own, or a function."""
        node = item.node
        assert isinstance(node, ast.Name)
        if not isinstance(node.ctx, ast.Load):
            return []
        names = item.names
        parameter = names.parameter(node)
        given = self._arguments(item, parameter, node.id) if parameter is not None else []
        defined = [each for definition in names.seen(node) for each in self._defined(item, definition, parameter)]
        if given or defined:
            return given + defined
        functions: list[ast.AST] = list(names.functions.get(node.id, ()))
        return [Item(node=each, names=names) for each in functions] + self._imported(names, node.id)

    def exact(self, item: Item) -> list[Item]:
        """What gives an attribute or a key its value where that is certain: the same path here, or a key of a literal."""
        node = item.node
        assert isinstance(node, (ast.Attribute, ast.Subscript))
        here = [each for definition in item.names.seen(node) for each in self._defined(item, definition, None)]
        if here or not last(node):
            return here
        bases = self.definitions(item.to(node.value)) if isinstance(node.value, ast.Name) else [item.to(node.value)]
        return [found for base in bases for found in self.keyed(base, last(node))]

    def keyed(self, item: Item, key: str) -> list[Item]:
        """The value that a dict's literal, or a call by keywords, gives for `key`."""
        node = item.node
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            return [item.to(value) for name, value in pairs if isinstance(name, ast.Constant) and str(name.value) == key]
        if isinstance(node, ast.Call):
            return [item.to(keyword.value) for keyword in node.keywords if keyword.arg == key]
        return []

    def members(self, item: Item) -> list[Item]:
        """What any object of the file is given under this attribute or key, and what a method of that name returns."""
        node, names = item.node, item.names
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names.imports:
            module, name, dots = names.imports[node.value.id]
            if name is None and (there := self._module(names.text.path, module, dots)) is not None:
                return self._toplevel(there, node.attr)
        found = [Item(node=each.value, names=names) for each in names.members.get(last(node), ())]
        functions: list[ast.AST] = list(names.functions.get(node.attr, ())) if isinstance(node, ast.Attribute) else []
        return found + [Item(node=each, names=names) for each in functions]

    def argument(self, call: Item, argument: str | int) -> list[Item]:
        """The values of an argument of a call, by keyword or position; of a dict of it, the key."""
        node = call.node
        assert isinstance(node, ast.Call)
        if isinstance(argument, int):
            stars = [each for each in node.args[: argument + 1] if isinstance(each, ast.Starred)]
            return [call.to(each) for each in stars or node.args[argument : argument + 1]]
        named = [call.to(each.value) for each in node.keywords if each.arg == argument]
        spread = [call.to(each.value) for each in node.keywords if each.arg is None]
        dicts = [each for star in spread for each in (star, *self._resolved(star))]
        literals = [call.to(each) for given in node.args for each in ast.walk(given) if isinstance(each, ast.Dict)]
        return named + [value for each in (*dicts, *literals) for value in self.keyed(each, argument)]

    def _resolved(self, item: Item) -> list[Item]:
        if isinstance(item.node, ast.Name):
            return self.definitions(item)
        return self.exact(item) if isinstance(item.node, (ast.Attribute, ast.Subscript)) else []

    def _defined(self, item: Item, definition: Definition, parameter: Scope | None) -> list[Item]:
        """The value, in the same run where it is the same function; of a flag, also the tests that it was set under."""
        scope = item.names.text.scope
        same = parameter is None and scope(definition.node) is scope(item.node)
        callers = item.callers if same or parameter is not None else None
        nodes = [definition.value]
        if isinstance(getattr(definition.value, "value", None), ast.Constant) or isinstance(definition.value, ast.Constant):
            nodes += item.names.text.branches(definition.node)
        return [Item(node=each, names=item.names, callers=callers) for each in nodes]

    def _arguments(self, item: Item, function: Scope, name: str) -> list[Item]:
        """What a parameter is given by the line that called, or where that is not known by every call of the function."""
        fallback = default(function, name)
        start = [] if fallback is None else [Item(node=fallback, names=item.names)]
        known = item.callers if item.names.text.scope(item.node) is function else None
        if known:
            names = self._load(known[0].path)
            calls = () if names is None else names.text.calls(known[0])
            if names is not None and calls:
                called = [call for call in calls if last(call.func) in self._called(item.names, function)] or calls
                return [
                    each
                    for call in called
                    for each in self.bound(Item(node=call, names=names, callers=known[1:]), function, name)
                ] + start
        calls = tuple(call for each in self._called(item.names, function) for call in item.names.calls.get(each, ()))
        return [each for call in calls for each in self.bound(Item(node=call, names=item.names), function, name)] + start

    def _called(self, names: Names, function: Scope) -> list[str]:
        """The names by which a function is called; of a constructor, its class."""
        own_name = str(getattr(function, "name", ""))
        around = names.text.scope(function)
        if isinstance(function, ast.Lambda):
            owner = names.text.owner(function)
            return [last(target) for target in owner.targets] if isinstance(owner, ast.Assign) else []
        return [around.name] if own_name == "__init__" and isinstance(around, ast.ClassDef) else [own_name]

    def bound(self, call: Item, function: Scope, name: str) -> list[Item]:
        """What a call of `function` gives its parameter `name`."""
        node = call.node
        assert isinstance(node, ast.Call)
        assert not isinstance(function, (ast.ClassDef, ast.Module))
        method = bool(parameters(function)) and parameters(function)[0] in ("self", "cls")
        positional = [each.arg for each in (*function.args.posonlyargs, *function.args.args)][method:]
        if name in positional:
            return self.argument(call, name) or self.argument(call, positional.index(name))
        if function.args.vararg is not None and function.args.vararg.arg == name:
            return [call.to(each) for each in node.args[len(positional) :]]
        if function.args.kwarg is not None and function.args.kwarg.arg == name:
            return [call.to(each.value) for each in node.keywords if each.arg not in positional]
        return self.argument(call, name)

    def _imported(self, names: Names, name: str) -> list[Item]:
        if name not in names.imports:
            return []
        module, original, dots = names.imports[name]
        there = None if original is None else self._module(names.text.path, module, dots)
        return [] if there is None or original is None else self._toplevel(there, original)

    def _toplevel(self, names: Names, name: str) -> list[Item]:
        found: list[ast.AST] = [each.value for each in names.variables.get(names.text.tree, {}).get(name, ())]
        found += names.functions.get(name, ())
        return [Item(node=each, names=names) for each in found]


def returned(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """What a function returns or yields; where that is a constant, also the tests that it is returned under."""
    for node in _statements(function.body):
        for each in own(node):
            if isinstance(each, (ast.Return, ast.Yield, ast.YieldFrom)) and each.value is not None:
                yield each.value
    constants = [
        node for node in _statements(function.body) if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant)
    ]
    if constants:
        yield from (node.test for node in _statements(function.body) if isinstance(node, ast.If))


def _statements(block: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements of a function's own, not those of functions in it."""
    for node in block:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield node
            yield from _statements(ast.iter_child_nodes(node))


def _mentions(node: ast.AST, method: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == method
    if isinstance(node, ast.Constant):
        return node.value == method
    return isinstance(node, ast.Name) and node.id == method
