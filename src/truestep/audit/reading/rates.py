"""Divisions by time in a text: what is counted, from which reading of a clock to which, and on which line it can be set right."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from truestep.audit.reading.flow import Flow, Item, returned
from truestep.audit.reading.names import Names, last, parameters, path
from truestep.audit.reading.text import FUNCTIONS, Scope

CLOCKS = frozenset({"time", "perf_counter", "monotonic", "time_ns", "perf_counter_ns", "monotonic_ns", "default_timer"})
AROUND = frozenset({"max", "min", "float", "round"})
"""Calls that leave a length of time one."""
DEEP = 8
"""How many names are followed from a divisor to the clock."""


@dataclass(frozen=True, kw_only=True)
class Factor:
    """A part of a product; inverse where it divides."""

    item: Item
    inverse: bool


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A difference of two readings of a clock."""

    end: ast.Call
    """The later reading."""
    start: Item
    """What holds the earlier one."""
    factors: tuple[Factor, ...] = ()
    """What the difference was multiplied with before it got its name."""
    added: ast.AugAssign | None = None
    """Where it is added to others like it."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Something over time, or time over something."""

    line: int
    """Where what is counted would be set right: the division, or the line that adds it up."""
    function: str
    expression: str
    counted: tuple[Factor, ...]
    interval: Interval
    caller: bool
    """Whether what is counted is a bare parameter: then it is the caller's line that tells how much."""


class Rates:
    """Those of one file, by the line of their later reading."""

    def __init__(self, names: Names, flow: Flow) -> None:
        self._names = names
        self._flow = flow
        self.by_line: dict[int, list[Rate]] = {}
        """By each line of the call that reads the clock last."""
        nodes = list(ast.walk(names.text.tree))
        remainders = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)]
        counts = set(_counts(nodes))
        self._periods = {path(each.right) for each in remainders if counts & set(map(last, ast.walk(each.left)))} - {None}
        for node in nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)) and not self._inside(node):
                for rate in filter(self._counts_work, self._read(node)):
                    end = rate.interval.end
                    for line in range(end.lineno, (end.end_lineno or end.lineno) + 1):
                        self.by_line.setdefault(line, []).append(rate)

    def _counts_work(self, rate: Rate) -> bool:
        """Whether anything of it is more than a number, or than a period of steps, such as `log_every`."""
        nodes = [each.item.node for each in rate.counted]
        return any(not isinstance(node, ast.Constant) and path(node) not in self._periods for node in nodes)

    def _inside(self, node: ast.BinOp) -> bool:
        parent = next(self._names.text.climb(node)).parent
        return isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mult, ast.Div))

    def _read(self, node: ast.BinOp) -> Iterator[Rate]:
        factors = tuple(product(Item(node=node, names=self._names)))
        if not any(factor.inverse for factor in factors):
            return
        for clock in factors:
            rest = tuple(factor for factor in factors if factor is not clock)
            yield from self._rated(node, clock, rest)
            yield from self._given(node, clock, rest)

    def _rated(self, node: ast.BinOp, clock: Factor, rest: tuple[Factor, ...]) -> Iterator[Rate]:
        """With the difference, and what is counted, in reach of the division's own function."""
        for interval in self._intervals(clock.item):
            counted = (*rest, *(replace(each, inverse=each.inverse ^ clock.inverse) for each in interval.factors))
            if not clock.inverse:
                counted = tuple(replace(each, inverse=not each.inverse) for each in counted)
            sums = self._sums(counted)
            if interval.added is not None:
                scope = self._names.text.scope
                beside = [each for each in sums if scope(each) is scope(interval.added)]
                if len(beside) == 1 and len(sums) == 1:
                    yield self._rate(beside[0], (Factor(item=self._item(beside[0].value), inverse=False),), interval)
            else:
                yield self._rate(sums[0] if len(sums) == 1 else node, counted, interval)

    def _given(self, node: ast.BinOp, clock: Factor, rest: tuple[Factor, ...]) -> Iterator[Rate]:
        """With both given as arguments by a line that calls the division's function."""
        if not isinstance(clock.item.node, ast.Name) or not clock.inverse:
            return
        function = self._names.parameter(clock.item.node)
        if not isinstance(function, FUNCTIONS):
            return
        for call in self._names.calls.get(function.name, ()):
            given = self._item(call)
            seconds = self._flow.bound(given, function, clock.item.node.id)
            counted = [Factor(item=self._argument(given, function, each.item), inverse=each.inverse) for each in rest]
            for interval in (found for each in seconds for found in self._intervals(each)):
                yield self._rate(call, (*counted, *interval.factors), interval)

    def _argument(self, call: Item, function: Scope, item: Item) -> Item:
        if isinstance(item.node, ast.Name) and item.node.id in parameters(function):
            return next(iter(self._flow.bound(call, function, item.node.id)), item)
        return item

    def _rate(self, node: ast.BinOp | ast.AugAssign | ast.Call, counted: tuple[Factor, ...], interval: Interval) -> Rate:
        text = self._names.text
        only = counted[0].item.node if len(counted) == 1 else None
        return Rate(
            line=node.lineno,
            function=str(getattr(text.scope(node), "name", "<module>")),
            expression=ast.unparse(node),
            counted=counted,
            interval=interval,
            caller=isinstance(node, ast.AugAssign) and isinstance(only, ast.Name) and self._names.parameter(only) is not None,
        )

    def _sums(self, counted: tuple[Factor, ...]) -> list[ast.AugAssign]:
        """The lines that add up what is counted, where it is one sum."""
        named = [each.item for each in counted if not each.inverse and not isinstance(each.item.node, ast.Constant)]
        if len(named) != 1 or not isinstance(named[0].node, (ast.Name, ast.Attribute)):
            return []
        sources = [each.node for each in self._sources(named[0])]
        return [each for each in sources if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add)]

    def _intervals(self, item: Item, depth: int = 0) -> Iterator[Interval]:
        node = item.node
        if depth > DEEP:
            return
        if isinstance(node, ast.Call) and last(node.func) in AROUND and node.args:
            yield from self._intervals(item.to(node.args[0]), depth + 1)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
            yield from self._intervals(item.to(node.left), depth + 1)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            start = item.to(node.right)
            if any(_names_clock(each.node) for each in self._flow.origins([start])):
                yield from (Interval(end=end, start=start) for end in self._readings(item.to(node.left), depth + 1))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            yield from self._scaled(item, depth + 1)
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            yield from self._named(item, depth + 1)

    def _scaled(self, item: Item, depth: int) -> Iterator[Interval]:
        factors = tuple(product(item))
        for clock in factors:
            rest = tuple(each for each in factors if each is not clock)
            if not clock.inverse:
                yield from (replace(each, factors=(*each.factors, *rest)) for each in self._intervals(clock.item, depth))

    def _named(self, item: Item, depth: int) -> Iterator[Interval]:
        for source in self._sources(item):
            if isinstance(source.node, ast.AugAssign) and isinstance(source.node.op, ast.Add):
                added = source.node
                yield from (replace(each, added=added) for each in self._intervals(source.to(added.value), depth))
            elif isinstance(source.node, FUNCTIONS):
                for value in returned(source.node):
                    yield from self._intervals(source.to(value), depth)
            elif source.names is self._names and self._same(source, item):
                yield from self._intervals(source, depth)

    def _same(self, source: Item, item: Item) -> bool:
        """Whether a name's value is no argument of its function, whose caller would count elsewhere."""
        node = item.node
        return not (isinstance(node, ast.Name) and self._names.parameter(node) is not None) or source.node is node

    def _readings(self, item: Item, depth: int) -> Iterator[ast.Call]:
        if isinstance(item.node, ast.Call) and _reads(item.node):
            yield item.node
        elif depth <= DEEP and isinstance(item.node, (ast.Name, ast.Attribute)):
            for source in self._sources(item):
                yield from self._readings(source, depth + 1)

    def _sources(self, item: Item) -> list[Item]:
        if isinstance(item.node, ast.Name):
            return self._flow.definitions(item)
        if isinstance(item.node, ast.Attribute):
            return self._flow.exact(item) or self._flow.members(item)
        return self._sources(item.to(item.node.func)) if isinstance(item.node, ast.Call) else []

    def _item(self, node: ast.AST) -> Item:
        return Item(node=node, names=self._names)


def product(item: Item, *, inverse: bool = False) -> Iterator[Factor]:
    """What an expression multiplies and divides."""
    node = item.node
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        yield from product(item.to(node.left), inverse=inverse)
        yield from product(item.to(node.right), inverse=inverse ^ isinstance(node.op, ast.Div))
    else:
        yield Factor(item=item, inverse=inverse)


def _counts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that loops go through or that are added to: what a period is held against, as a size that has to divide
    another is not."""
    for node in nodes:
        if isinstance(node, (ast.For, ast.AsyncFor, ast.AugAssign, ast.comprehension)):
            yield from (name for each in ast.walk(node.target) if (name := last(each)))


def _reads(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last(node.func) in CLOCKS and not node.args


def _names_clock(node: ast.AST) -> bool:
    """Whether a clock is named at all: it may have been handed on, as a dataclass's default factory."""
    return (isinstance(node, ast.Attribute) and node.attr in CLOCKS) or (
        (isinstance(node, ast.Name) and node.id in CLOCKS - {"time"}) or _reads(node)
    )
