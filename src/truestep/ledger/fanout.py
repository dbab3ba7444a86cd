"""Hands a ledger's attempts on to its sinks, and drops one that fails."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from truestep.errors import LedgerError, UsageError
from truestep.ledger.records import Record, sink_record
from truestep.ledger.sinks import Sink, scalars


class Fanout:
    """The sinks of one ledger that still work. What each method yields are lines for the ledger."""

    def __init__(self, sinks: Sequence[Sink], header: Record) -> None:
        """Open all of them, or none: UsageError where a package is missing, LedgerError where one does not open."""
        self._open: list[_Handed] = []
        for sink in sinks:
            try:
                sink.open(header)
            except Exception as error:  # a tracker's failure to open can be anything
                list(self.close())
                raise _unopened(sink, error) from error
            self._open.append(_Handed(sink))

    def resume(self, attempts: int) -> Iterator[Record]:
        """The run goes on from attempt `attempts`."""
        return self._each(lambda sink: sink.resume(attempts))

    def attempt(self, record: Record) -> Iterator[Record]:
        """One attempt's line."""
        if not self._open:
            return iter(())
        values = scalars(record)
        return self._each(lambda sink: sink.attempt(record["attempt"], values), attempts=1)

    def close(self) -> Iterator[Record]:
        """A line for each sink that is closed here, the last word on it; closing twice is harmless."""
        while self._open:
            handed = self._open.pop(0)
            yield handed.line(handed.call(handed.sink.close))

    def _each(self, do: Callable[[Sink], None], attempts: int = 0) -> Iterator[Record]:
        for handed in tuple(self._open):
            error = handed.call(partial(do, handed.sink))
            if error is None:
                handed.attempts += attempts
                continue
            self._open.remove(handed)
            with contextlib.suppress(Exception):  # it failed already, and that is told
                handed.sink.close()
            yield handed.line(error)


class _Handed:
    """One sink, with what it took and in what time."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.attempts = 0
        self.seconds = 0.0

    def call(self, do: Callable[[], None]) -> str | None:
        """Why `do` failed, or None."""
        started = time.perf_counter()
        try:
            do()
        except Exception as error:  # a tracker's failure can be anything, and none of them may end the run
            return f"{type(error).__name__}: {error}"
        finally:
            self.seconds += time.perf_counter() - started
        return None

    def line(self, error: str | None) -> Record:
        return sink_record(sink=type(self.sink).__name__, attempts=self.attempts, seconds=self.seconds, error=error)


def _unopened(sink: Sink, error: Exception) -> UsageError | LedgerError:
    name = type(sink).__name__
    if isinstance(error, ImportError):
        return UsageError(
            f"the sink {name} lacks its package: {error}", hint=f"pip install 'truestep[{name.lower()}]'", sink=name
        )
    message = f"the sink {name} cannot be opened: {type(error).__name__}: {error}"
    return LedgerError(message, hint="mend what the tracker says, or leave this sink out", sink=name)
