"""What a ledger adds up to. Pure: from lines to one value."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from truestep.engine.counts import Counts
from truestep.errors import LedgerError
from truestep.ledger.alarm import Alert
from truestep.ledger.records import Record, alarm_record, alert_of, counts_of, counts_record, encoded


@dataclass(kw_only=True)
class SinkTotals:
    """What the sinks of one kind took of a ledger."""

    attempts: int = 0
    seconds: float = 0.0
    """The time that they cost the run."""
    errors: list[str] = field(default_factory=list)
    """Why sinks were dropped."""


@dataclass(kw_only=True)
class StageTotals:
    """What one stage of an attempt took."""

    attempts: int = 0
    """Those that came to it."""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A run's totals. Attempts that were rolled back are waste and appear in nothing else."""

    run_id: str
    created: str
    protocol_hash: str | None
    policies: tuple[str, ...]
    """The policies of the attempts, in the order of their first use."""
    counts: Counts
    """The last attempt's running totals."""
    seconds: float
    """The attempts' own wall time, from start to end of each; what lies between them is not in the ledger."""
    loss_scale: tuple[float, float] | None
    """The smallest and the largest loss scale used; None without an attempt."""
    staged_attempts: int
    """The attempts whose lines say where their seconds went."""
    stages: Mapping[str, StageTotals]
    """What each stage took of these; their sum is these attempts' seconds."""
    wasted_attempts: int
    wasted_examples: int
    """Examples seen by attempts that were rolled back."""
    wasted_seconds: float
    missing_attempts: int
    """Attempts that the counts know and the file does not: made before the ledger began, or lost with the machine."""
    alarms: int
    """How often the skip alarm sounded."""
    last_alert: Alert | None
    """None where it did not."""
    sinks: Mapping[str, SinkTotals]
    """What each kind of sink took, over all openings of the ledger; one whose ledger was not closed has said nothing."""

    @property
    def skip_rate(self) -> float | None:
        """Skipped attempts / attempts; None without an attempt."""
        return self.counts.skipped / self.counts.attempts if self.counts.attempts else None

    @property
    def examples_per_second(self) -> float | None:
        """Examples applied / seconds, wasted ones included; None where no time passed or lines are missing."""
        return self._rate(self.counts.examples_applied)

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens applied / seconds, likewise; None where tokens are not counted."""
        return self._rate(self.counts.tokens_applied)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values, rates included."""
        return {
            "schema": 1,
            "run_id": self.run_id,
            "created": self.created,
            "protocol_hash": self.protocol_hash,
            "policies": list(self.policies),
            "counts": counts_record(self.counts) | {"skipped": self.counts.skipped},
            "loss_scale": None if self.loss_scale is None else [encoded(scale) for scale in self.loss_scale],
            "seconds": self.seconds,
            "staged_attempts": self.staged_attempts,
            "stages": {name: asdict(totals) for name, totals in self.stages.items()},
            "waste": {
                "attempts": self.wasted_attempts,
                "examples": self.wasted_examples,
                "seconds": self.wasted_seconds,
            },
            "missing_attempts": self.missing_attempts,
            "alarms": self.alarms,
            "last_alert": None if self.last_alert is None else alarm_record(self.last_alert),
            "sinks": {name: asdict(totals) for name, totals in self.sinks.items()},
            "skip_rate": self.skip_rate,
            "examples_per_second": self.examples_per_second,
            "tokens_per_second": self.tokens_per_second,
        }

    def _rate(self, amount: int | None) -> float | None:
        seconds = self.seconds + self.wasted_seconds
        return None if amount is None or self.missing_attempts or not seconds > 0 else amount / seconds


def summarize(lines: Iterable[Record]) -> Summary:
    """The totals of the lines that `read` yields.

    Counts are taken from the last attempt that stands and held against the sum over the lines: attempts = completed +
    skipped, by reason, and the examples and tokens of both.

    Raises:
        LedgerError: the lines do not add up to the counts that they carry.
    """
    lines = iter(lines)
    header = next(lines)
    stand, waste = _Totals(), _Totals()
    alarms, alarm, sinks = 0, None, dict[str, SinkTotals]()
    for line in lines:
        if line["kind"] == "attempt":
            (waste if line["waste"] else stand).add(line)
        elif line["kind"] == "alarm" and not line["waste"]:
            alarms, alarm = alarms + 1, line
        elif line["kind"] == "sink":
            _add_sink(sinks.setdefault(line["sink"], SinkTotals()), line)
    carried = Counts() if stand.last is None else counts_of(stand.last["counts"])
    missing = carried.attempts - stand.attempts
    if missing == 0:
        _agree(stand.added(), carried)
    return Summary(
        run_id=header["run_id"],
        created=header["created"],
        protocol_hash=header["protocol_hash"],
        policies=tuple(stand.policies),
        counts=carried,
        seconds=stand.seconds,
        loss_scale=stand.loss_scale,
        staged_attempts=stand.staged_attempts,
        stages=dict(stand.stages),
        wasted_attempts=waste.attempts,
        wasted_examples=waste.examples,
        wasted_seconds=waste.seconds,
        missing_attempts=missing,
        alarms=alarms,
        last_alert=None if alarm is None else alert_of(alarm),
        sinks=sinks,
    )


class _Totals:
    """A running sum over attempts, in plain numbers, as a million of them take seconds; of the lines it keeps the last."""

    def __init__(self) -> None:
        self.attempts = 0
        self.skips: Counter[str] = Counter()
        self.consecutive_skips = 0
        self.examples = self.examples_applied = 0
        self.tokens: int | None = None
        self.tokens_applied: int | None = None
        self.policies: dict[str, None] = {}
        self.loss_scale: tuple[float, float] | None = None
        self.seconds = 0.0
        self.staged_attempts = 0
        self.stages: defaultdict[str, StageTotals] = defaultdict(StageTotals)
        self.last: Record | None = None

    def add(self, line: Record) -> None:
        self.attempts += 1
        applied = line["skip"] is None
        if applied:
            self.consecutive_skips = 0
        else:
            self.skips[line["skip"]["reason"]] += 1
            self.consecutive_skips += 1
        self.examples += line["examples"] or 0
        self.examples_applied += applied * (line["examples"] or 0)
        if line["tokens"] is not None:
            self.tokens = (self.tokens or 0) + line["tokens"]
            self.tokens_applied = (self.tokens_applied or 0) + applied * line["tokens"]
        self.policies[line["policy"]] = None
        self.loss_scale = _widened(self.loss_scale, float(line["amp/loss_scale"]))
        self.seconds += float(line["seconds"])
        if "perf/seconds_by_stage" in line:
            self._add_stages(line["perf/seconds_by_stage"])
        self.last = line

    def _add_stages(self, seconds_by_stage: Mapping[str, float | str]) -> None:
        self.staged_attempts += 1
        for stage, seconds in seconds_by_stage.items():
            totals = self.stages[stage]
            totals.attempts += 1
            totals.seconds += float(seconds)

    def added(self) -> Counts:
        """What the lines add up to; ticks cannot be told from them."""
        return Counts(
            attempts=self.attempts,
            completed=self.attempts - self.skips.total(),
            skipped_by_reason=dict(self.skips),
            consecutive_skips=self.consecutive_skips,
            examples_seen=self.examples,
            examples_applied=self.examples_applied,
            tokens_seen=self.tokens,
            tokens_applied=self.tokens_applied,
        )


def _add_sink(totals: SinkTotals, line: Record) -> None:
    totals.attempts += line["attempts"]
    totals.seconds += float(line["seconds"])
    if line["error"] is not None:
        totals.errors.append(line["error"])


def _widened(span: tuple[float, float] | None, value: float) -> tuple[float, float]:
    return (value, value) if span is None else (min(span[0], value), max(span[1], value))


def _agree(added: Counts, carried: Counts) -> None:
    """Refuse lines whose sum is not what the last of them says."""
    if replace(added, ticks=carried.ticks) != carried:
        raise LedgerError(
            f"the lines add up to {counts_record(added)}, and the last of them says {counts_record(carried)}",
            hint="the file was changed after it was written",
        )
