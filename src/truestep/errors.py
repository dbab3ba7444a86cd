"""Every exception that truestep raises for a user's mistake or a broken surrounding.

    TruestepError
    ├── UsageError             what was asked cannot be asked (exit code 2 on the command line)
    │   ├── PolicyError        a precision, or its loss scale, that cannot be had
    │   ├── ClipError          a clip limit that is no limit
    │   ├── ClockError         a scheduler or a clock that do not fit each other
    │   ├── OptimizerError     an optimizer or its parameters that the engine does not take
    │   ├── FormatError        a number format that the table does not hold
    │   ├── TaskError          a task that is unknown, or a task file that names nothing
    │   └── ProtocolError      a comparison that cannot be declared
    ├── UpdateError            an update that cannot be made from what it was given
    │   ├── WindowError        a window without a microbatch, or one whose size cannot be read
    │   ├── LossError          a loss that is no scalar of the model's graph
    │   ├── WeightError        a weight that is no weight, or not the loss's denominator
    │   ├── GradientError      gradients that the optimizer cannot be given
    │   └── StateError         an order of calls that has no meaning, or a state that is none
    ├── SkipLimitError         more attempts skipped in a row than were allowed; carries the outcome
    ├── RunError               a task whose own code failed; carries the cause
    └── FileError              a file that cannot be written, or that holds something else
        ├── LedgerError        a ledger
        ├── CheckpointError    a checkpoint
        └── RecordError        a protocol or a run's record

An error says what was asked and what was found, then, after `hint:`, what to do. The facts are attributes too:

>>> error = PolicyError("compute=float16 with loss scaling off", hint="use scale=LossScale.dynamic()", compute="float16")
>>> error.compute
'float16'
>>> print(error)
compute=float16 with loss scaling off
  compute: float16
hint: use scale=LossScale.dynamic()
"""

from __future__ import annotations

from typing import Any


class TruestepError(Exception):
    """The root: `facts` are the numbers and names behind the message, `hint` is the next action."""

    def __init__(self, summary: str, *, hint: str | None = None, **facts: Any) -> None:
        super().__init__(summary)
        self.summary = summary
        self.hint = hint
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        """A fact, by its name."""
        facts = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        raise AttributeError(f"{type(self).__name__} has no fact {name!r}; it has: {', '.join(facts) or 'none'}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Facts and hint survive a pickle, hence a process boundary."""
        return _rebuild, (type(self), self.summary, self.hint, self.facts)

    def __str__(self) -> str:
        """Summary, facts and hint, each on a line of its own."""
        lines = [self.summary]
        shown = {name: fact for name, fact in self.facts.items() if isinstance(fact, (str, int, float))}
        if shown:
            lines.append("  " + "   ".join(f"{name}: {fact}" for name, fact in shown.items()))
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


def _rebuild(kind: type[TruestepError], summary: str, hint: str | None, facts: dict[str, Any]) -> TruestepError:
    return kind(summary, hint=hint, **facts)


class UsageError(TruestepError):
    """What was asked cannot be asked."""


class PolicyError(UsageError):
    """A precision, or its loss scale, that cannot be had."""


class ClipError(UsageError):
    """A clip limit that is no limit."""


class ClockError(UsageError):
    """A scheduler or a clock that do not fit each other."""


class OptimizerError(UsageError):
    """An optimizer or its parameters that the engine does not take."""


class FormatError(UsageError):
    """A number format that the table does not hold."""


class TaskError(UsageError):
    """A task that is unknown, or a task file that names nothing."""


class ProtocolError(UsageError):
    """A comparison that cannot be declared."""


class UpdateError(TruestepError):
    """An update that cannot be made from what it was given."""


class WindowError(UpdateError):
    """A window without a microbatch, or one whose size cannot be read."""


class LossError(UpdateError):
    """A loss that is no scalar of the model's graph."""


class WeightError(UpdateError):
    """A weight that is no weight, or not the loss's denominator."""


class GradientError(UpdateError):
    """Gradients that the optimizer cannot be given."""


class StateError(UpdateError):
    """An order of calls that has no meaning, or a state to load that is none."""


class SkipLimitError(TruestepError):
    """More attempts skipped in a row than were allowed; `outcome` is the last one."""


class RunError(TruestepError):
    """A task whose own code failed; the cause is chained."""


class FileError(TruestepError):
    """A file that cannot be written, or that holds something else."""


class LedgerError(FileError):
    """A ledger that cannot be written, or a file that is none."""


class CheckpointError(FileError):
    """A checkpoint that cannot be written, is torn, or belongs to something else."""


class RecordError(FileError):
    """A protocol or a run's record that cannot be written or read."""
