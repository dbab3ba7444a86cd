"""What an exception means for a run: its status, and the words of its record."""

from __future__ import annotations

import torch

from truestep.engine.outcome import Outcome, Reason
from truestep.engine.policy import Policy
from truestep.errors import SkipLimitError, TruestepError, WeightError
from truestep.run.record import Status
from truestep.tasks import Task
from truestep.tasks.place import file_of, place_of

_SKIPS_HINT = "the run's ledger has the reason, place and loss scale of every attempt; a loss scale cures backward overflows only"
"""In place of the error's own: whoever reads a record has no `error.outcome`."""


class AttemptOutOfMemoryError(Exception):
    """Memory did not suffice for an attempt, which left no trace; its cause is torch's or Python's own error.

    Args:
        examples: those of the window's largest microbatch.
        finer: into how many microbatches the window has to be split to halve that; None where it is 1.
    """

    def __init__(self, *, examples: int, finer: int | None) -> None:
        super().__init__(examples, finer)
        self.examples, self.finer = examples, finer

    @property
    def hint(self) -> str:
        """What to do about it."""
        if self.finer is None:
            return "a microbatch of 1 example is too much already: make the model or its activations smaller"
        return (
            f"the largest microbatch held {self.examples} examples; accumulate={self.finer} halves that and keeps the "
            "effective batch, and on_oom=accumulate does so by itself"
        )


def ending_of(error: BaseException, task: Task) -> tuple[Status, str, str | None]:
    """Status, detail and hint of a run that `error` ended; no hint where the task's own code failed."""
    if isinstance(error, SkipLimitError):
        return ("diverged" if _diverged(error.outcome) else "stalled"), error.summary, _SKIPS_HINT
    if isinstance(error, AttemptOutOfMemoryError):
        assert error.__cause__ is not None
        return "out of memory", ending_of(error.__cause__, task)[1], error.hint
    file = file_of(task)
    place = place_of(error, file)
    if isinstance(error, TruestepError):
        at = f" ({place})" if file is not None and place.startswith(f"{file}:") else ""  # a line of ours helps nobody
        return "error", f"{type(error).__name__}: {error.summary}{at}", _hint_of(error, task)
    return ("out of memory" if is_out_of_memory(error) else "error"), f"{type(error).__name__}: {error} ({place})", None


def _hint_of(error: TruestepError, task: Task) -> str | None:
    """The error's own, in the words of a task: whoever writes one makes no Update."""
    hint = error.hint
    if isinstance(error, WeightError) and hint is not None and task.weight is None:
        return hint.replace("give Update(weight=...)", "define weight(self, microbatch) in the task")
    return hint


def _diverged(last: Outcome) -> bool:
    """Whether the skips that ended a run show weights or a loss that are not finite, and no fault of data or format.

    A forward that overflows in a narrow format may be sound in float32: such a run has stalled.
    """
    assert last.skip is not None
    reason, narrow = last.skip.reason, Policy.named(last.policy).low
    return reason in (Reason.PARAMETER, Reason.LOSS) or (reason is Reason.FORWARD and not narrow)


def is_out_of_memory(error: BaseException) -> bool:
    """Torch has a type of its own for a device's memory; for the machine's it has words alone."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
