"""How a run's progress looks on stderr: a bar that moves on a terminal, elsewhere a line for each evaluation."""

from __future__ import annotations

import sys
import time
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from truestep.pages.words import percent, seconds, significant

if TYPE_CHECKING:
    from truestep import run

_SHORTEST_SECONDS = 0.1
"""Between two pictures: their time is the run's."""


class Live:
    """What a user sees of a run under way; warnings are lines of their own."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[said]}"))
        self._bar = Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task = self._bar.add_task("starting", total=None, said="")
        self._shown = 0.0
        self._warnings = warnings.catch_warnings()

    def __enter__(self) -> Self:
        """Begin to show."""
        self._warnings.__enter__()
        warnings.simplefilter("always", RuntimeWarning)  # an alarm may sound again
        warnings.showwarning = self._warn
        self._bar.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Take the bar away."""
        self._bar.__exit__(kind, error, trace)
        self._warnings.__exit__(kind, error, trace)

    def show(self, made: run.Progress) -> None:
        """An attempt was made."""
        if made.evaluated:
            self.say(line(made))
        if self._console.is_terminal and time.monotonic() >= self._shown + _SHORTEST_SECONDS:
            self._shown = time.monotonic()
            counts = made.counts
            self._bar.update(
                self._task, description=made.candidate, completed=counts.attempts, total=made.budget_attempts, said=said(made)
            )

    def say(self, *lines: str) -> None:
        """Lines that stay."""
        for each in lines:
            self._console.print(each, soft_wrap=True)

    def _warn(self, message: Warning | str, *place: Any, **more: Any) -> None:
        self.say(f"warning: {message}")


def line(made: run.Progress) -> str:
    """An evaluation, on a line of its own."""
    assert made.quality is not None
    return f"{made.counts.attempts}/{made.budget_attempts}  quality {significant(made.quality, 4)}, {said(made)}"


def said(made: run.Progress) -> str:
    """Loss, loss scale, skip rate beside the throughput, and the time left."""
    outcome, counts, tokens = made.outcome, made.counts, made.tokens_per_second
    words = [
        "no loss" if outcome.loss is None else f"loss {significant(outcome.loss, 4)}",
        f"scale {outcome.next_loss_scale:g}",
        f"{percent(counts.skipped / counts.attempts)} skipped",
        f"{significant(made.examples_per_second)} examples/s",
        None if tokens is None else f"{significant(tokens)} tokens/s",
        f"{seconds(made.seconds_left)} left",
    ]
    return ", ".join(word for word in words if word is not None)
