"""Counters that a script moves by one, and what it takes them for: updates by their name, or the ticks of a schedule."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from truestep.audit.reading.names import Names, last, path

NAMES = ("optimizer_step", "optim_step", "opt_step")
"""Names of updates, beside any with the word update."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A line that counts something as updates."""

    node: ast.AugAssign
    schedule: str | None
    """The number that both ends the loop by this counter and is the length of a schedule; None where the name alone claims it."""

    ends: bool = False
    """Whether a test of it ends a loop or leaves a function."""

    @property
    def updates(self) -> bool:
        """Whether it is taken for updates, and not only for how long training goes on."""
        return self.schedule is not None or _says_update(last(self.node.target))

    @property
    def name(self) -> str:
        """What is counted up, as the script writes it."""
        return ast.unparse(self.node.target)


def claims(names: Names) -> Iterator[Claim]:
    """Every counter of a file that is taken for updates, or ends training."""
    nodes = list(ast.walk(names.text.tree))
    lengths, ending = set(_lengths(nodes)), set(_ending(nodes)) - {None}
    for node in nodes:
        one = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.Constant) and one and node.value.value == 1:
            limits = set(_limits(nodes, path(node.target))) & lengths
            claim = Claim(node=node, schedule=min(limits, default=None), ends=path(node.target) in ending)
            if claim.updates or claim.ends:
                yield claim


def _says_update(name: str) -> bool:
    words = name.lower().strip("_").split("_")
    return "update" in words or "updates" in words or any(each in name.lower() for each in NAMES)


def _limits(nodes: list[ast.AST], counter: str | None) -> Iterator[str]:
    """What a counter is compared with."""
    for node in nodes:
        if isinstance(node, ast.Compare) and len(node.comparators) == 1:
            sides = (path(node.left), path(node.comparators[0]))
            if counter is not None and counter in sides:
                yield from (side for side in sides if side is not None and side != counter)


def _ending(nodes: list[ast.AST]) -> Iterator[str | None]:
    """What is compared with something, to end a loop or leave a function."""
    for node in nodes:
        leaves = isinstance(node, ast.If) and any(isinstance(each, (ast.Break, ast.Return)) for each in node.body)
        test = node.test if isinstance(node, (ast.While, ast.If)) and (leaves or isinstance(node, ast.While)) else None
        for each in () if test is None else ast.walk(test):
            if isinstance(each, ast.Compare) and isinstance(each.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq)):
                yield from (path(each.left), path(each.comparators[0]))


def _lengths(nodes: list[ast.AST]) -> Iterator[str]:
    """What schedulers are given as numbers."""
    for node in nodes:
        if isinstance(node, ast.Call) and (last(node.func).endswith("LR") or "schedule" in last(node.func).lower()):
            for each in (*node.args[1:], *(keyword.value for keyword in node.keywords)):
                found = path(each)
                if found is not None:
                    yield found
