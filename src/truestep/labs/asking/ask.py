"""The kinds of exercise. What can be computed has no answer typed in: `answer` reads it from what the lab's run showed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from truestep.labs.shown import Shown, Table, Value


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option of a choice: its words, the value that would be measured if it were right, and why it is right or tempts."""

    text: str
    value: Value
    why: str


@dataclass(frozen=True, kw_only=True)
class Tempting:
    """A wrong number that tempts, computed from the same run, and why it does."""

    value: Callable[[Shown], float]
    why: str


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which option is right: the one whose value was measured. With `eliminate`, the wrong ones are ruled out one by one."""

    key: str
    prompt: str
    options: tuple[Option, ...]
    answer: Callable[[Shown], Value]
    eliminate: bool = False


@dataclass(frozen=True, kw_only=True)
class Number:
    """Predict a number before it is computed; right within the share `within` of it (0: exactly)."""

    key: str
    prompt: str
    unit: str | None = None
    answer: Callable[[Shown], float]
    within: float = 0.01
    why: str
    tempting: tuple[Tempting, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Column:
    """Fill in the missing column of a table that the run wrote; each number is right within the share `within`."""

    key: str
    prompt: str
    table: Callable[[Shown], Table]
    blank: str
    within: float = 0.01
    why: str


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """Sort items into buckets; `answer` gives each item's bucket as it was measured."""

    key: str
    prompt: str
    buckets: tuple[str, ...]
    answer: Callable[[Shown], Mapping[str, str]]
    why: Mapping[str, str]
    """Of each item, why it belongs where it does."""


@dataclass(frozen=True, kw_only=True)
class Find:
    """Find the line at which a loop that looks right goes wrong; the audit runs the script and says."""

    key: str
    prompt: str
    script: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Build:
    """Write a loop in a file of one's own, which is run and held against the engine by the milestone of that name."""

    key: str
    prompt: str
    milestone: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Open:
    """A question that the learner answers in words and grades against the rubric, a point for each of its lines."""

    key: str
    prompt: str
    rubric: tuple[str, ...]
    strong: str
    weak: str
    follow_up: str | None = None


Ask = Choice | Number | Column | Buckets | Find | Build | Open
