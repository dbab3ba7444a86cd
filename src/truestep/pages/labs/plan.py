"""The map as values: labs in columns by topic, and an arrow from each lab to those that need it."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PITCH, HIGH, HEAD = 52, 42, 46
"""From one lab to the next, a lab's height, and the room above a topic's first one; all in pixels of the drawing."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A lab: where its box begins, and its title in lines."""

    name: str
    title: str
    x: float
    y: float
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Arrow:
    """From the lab that comes before to the one that needs it."""

    start: str
    end: str
    why: str
    path: str
    """As SVG has it."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The whole drawing."""

    width: int
    height: int
    box: int
    heads: tuple[tuple[str, float, float], ...]
    """Of each topic the title and where it stands."""
    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]


def plan(record: Mapping[str, Any], *, columns: int) -> Plan:
    """The map in so many columns: 1, all topics below each other, or one for each topic.

    An arrow inside a column is an arc on its left, wider the further it reaches; one between columns leads from edge to edge.
    """
    column, box, bulge = (1080 // columns, 158, 30) if columns > 1 else (344, 236, 92)
    heads, nodes, place = [], {}, 0.0
    for number, topic in enumerate(record["topics"]):
        x = number * column if columns > 1 else 0
        place = 0 if columns > 1 else place
        labs = [lab for lab in record["labs"] if lab["topic"] == topic["name"]]
        heads.append((topic["title"], float(x + column - box - 2), place + 24))
        for row, lab in enumerate(labs):
            lines = tuple(textwrap.wrap(lab["title"], 21 if columns > 1 else 32)[:2])
            left = float(x + column - box - 2)
            nodes[lab["name"]] = Node(name=lab["name"], title=lab["title"], x=left, y=place + HEAD + row * PITCH, lines=lines)
        place += HEAD + len(labs) * PITCH + 6
    arrows = tuple(
        Arrow(start=each["lab"], end=lab["name"], why=each["why"], path=_path(nodes[each["lab"]], nodes[lab["name"]], box, bulge))
        for lab in record["labs"]
        for each in lab["after"]
    )
    height = max([node.y + HIGH for node in nodes.values()] + [y for _, _, y in heads]) + 8
    return Plan(
        width=column * columns, height=int(height), box=box, heads=tuple(heads), nodes=tuple(nodes.values()), arrows=arrows
    )


def _path(start: Node, end: Node, box: int, bulge: int) -> str:
    """A curve that leaves and arrives level: by the left edges in one column, else by the edges that face each other."""
    inside, forward = start.x == end.x, end.x > start.x
    (x, y), (tip, level) = (start.x, start.y + HIGH / 2), (end.x - 3, end.y + HIGH / 2)
    if inside:
        y += 6  # apart from what arrives here
        first = second = x - min(bulge, 12 + abs(level - y) / 9)
    elif forward:
        x += box
        first, second = x + 0.6 * (tip - x), tip - 0.6 * (tip - x)
    else:
        tip = end.x + box + 3
        first, second = x - 60, tip + 60
    return f"M{x:g} {y:g}C{first:g} {y:g} {second:g} {level:g} {tip:g} {level:g}"
