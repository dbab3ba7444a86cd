"""From records to a comparison's summary: standings, each candidate against the baseline, what limits both. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from truestep.compare.against import (
    Against,
    Limits,
    Ratio,
    examples_margin,
    pairs,
    quality_margin,
    ratios,
    time_verdict,
)
from truestep.compare.conditions import Judgement, judged
from truestep.compare.notes import Note, notes
from truestep.compare.protocol import Protocol
from truestep.compare.standing import CLOCKS, Record, Standing, budgets, standing
from truestep.compare.words import verdict_text
from truestep.errors import RecordError
from truestep.stats import Bound, holm, seeds_needed

SCHEMA = 1
"""Moves when a field's meaning moves."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A candidate's line of the table."""

    standing: Standing
    against: Against | None
    """None for the baseline."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a comparison says."""

    protocol_hash: str
    limits: Limits
    rows: tuple[Row, ...]
    """The baseline first, then as declared."""
    notes: tuple[Note, ...]
    """What limits the verdicts, in words."""
    conditions: tuple[Judgement, ...] = ()
    """What became of each declared condition, candidate by candidate."""

    @property
    def exit_code(self) -> int:
        """1 where a declared condition holds, or cannot be told; else 0."""
        return int(any(one.holds is not False for one in self.conditions))

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON values: `candidates` holds each standing's fields, and `against` (None for the baseline)."""
        rows = [asdict(row.standing) | {"against": row.against and asdict(row.against)} for row in self.rows]
        head = {"schema": SCHEMA, "protocol_hash": self.protocol_hash} | asdict(self.limits)
        return (
            head
            | {"candidates": rows, "notes": [asdict(note) for note in self.notes]}
            | {"conditions": [asdict(one) for one in self.conditions]}
        )


def summarize(protocol: Protocol, records: Sequence[Record]) -> Summary:
    """The summary of `records`: all or some of the runs that `protocol` asks for, in any order.

    Raises:
        RecordError: a record of another protocol, of a candidate or a seed that the protocol does not name, or a second
            one of the same run.
    """
    demand_records(protocol, records)
    tau = budgets(protocol, records)
    runs = {name: [record for record in records if record["candidate"] == name] for name in protocol.candidates}
    standings = [standing(name, runs[name], protocol=protocol, tau=tau) for name in protocol.candidates]
    paired = {name: pairs(runs[name], runs[protocol.baseline]) for name in protocol.candidates}
    found = adjusted({one.candidate: ratios(paired[one.candidate], tau) for one in standings}, standings)
    limits = Limits(
        runs=len(records),
        planned=len(protocol.candidates) * len(protocol.seeds),
        seeds_needed=seeds_needed(max(1, sum(one.is_rival for one in standings)), alpha=protocol.alpha),
        noise_floor=_noise_floor(found[one.candidate]["seconds"] for one in standings if one.again),
        at_once=protocol.jobs,
        baseline_emulated=standings[0].emulated,
    )
    rows = tuple(
        Row(
            standing=one,
            against=None
            if one.baseline
            else _against(one, paired[one.candidate], found[one.candidate], protocol=protocol, tau=tau, limits=limits),
        )
        for one in standings
    )
    conditions = judged(protocol.fail_if, [(row.standing, row.against) for row in rows], noise_floor=limits.noise_floor)
    said = notes(protocol, standings, limits, tau)
    return Summary(protocol_hash=protocol.hash, limits=limits, rows=rows, notes=said, conditions=conditions)


def demand_records(protocol: Protocol, records: Sequence[Record]) -> None:
    """RecordError unless every record is the only one of a run that `protocol` asks for."""
    seen = set()
    for record in records:
        run = (record["candidate"], record["seed"])
        if record["protocol_hash"] != protocol.hash:
            raise RecordError(
                f"the record of {run[0]}, seed {run[1]}, belongs to another protocol",
                hint="compare records of one protocol only",
                record=record["protocol_hash"],
                protocol=protocol.hash,
            )
        if run[0] not in protocol.candidates or run[1] not in protocol.seeds or run in seen:
            why = "is there twice" if run in seen else "is not asked for by its protocol"
            message = f"the record of {run[0]}, seed {run[1]}, {why}"
            raise RecordError(message, hint="restore records.jsonl, or begin anew", candidate=run[0], seed=run[1])
        seen.add(run)


def adjusted(
    found: Mapping[str, Mapping[str, Ratio | None]], standings: Sequence[Standing]
) -> dict[str, dict[str, Ratio | None]]:
    """The ratios with their p-values adjusted by Holm, clock by clock, over the candidates about which a claim is made.

    `standings` begin with the baseline's.
    No claim is made about the baseline again or a demonstration, nor about seconds of which either side is emulated.
    """
    result = {name: dict(by_clock) for name, by_clock in found.items()}
    for clock in CLOCKS:
        judged = {
            one.candidate: ratio
            for one in standings
            if one.is_rival
            and not (clock == "seconds" and (one.emulated or standings[0].emulated))
            and (ratio := found[one.candidate][clock]) is not None
        }
        for (name, ratio), p in zip(judged.items(), holm([ratio.p for ratio in judged.values()]), strict=True):
            result[name][clock] = replace(ratio, p_adjusted=p)
    return result


def _noise_floor(again: Iterable[Ratio | None]) -> float | None:
    """How far the baseline lay from itself: the larger end of the interval, as a ratio of 1 or more.

    None where neither of the two ever reached the target: equal budgets are no measurement.
    """
    for ratio in again:
        if ratio is not None and any(one.bound is not Bound.UNDIRECTED for one in ratio.seeds):
            ends = [ratio.speedup] if ratio.interval is None else [ratio.interval.low, ratio.interval.high]
            return math.exp(max(abs(math.log(end)) for end in ends))
    return None


def _against(
    one: Standing,
    paired: Sequence[tuple[Record, Record]],
    by_clock: Mapping[str, Ratio | None],
    *,
    protocol: Protocol,
    tau: Mapping[str, float | None],
    limits: Limits,
) -> Against:
    time = time_verdict(
        by_clock["seconds"],
        pairs=len(paired),
        needed=limits.seeds_needed,
        alpha=protocol.alpha,
        emulated=one.emulated or limits.baseline_emulated,
        floor=limits.noise_floor,
    )
    result = Against(
        pairs=len(paired),
        ratios=by_clock,
        examples=examples_margin(paired, protocol=protocol, tau=tau["examples"]),
        quality=quality_margin(paired, protocol=protocol),
        time=time,
        text="",
    )
    return replace(result, text=verdict_text(one, result, limits))
