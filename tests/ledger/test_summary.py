"""A ledger adds up to the counts that its last line carries."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from truestep.engine.outcome import Outcome, Reason
from truestep.errors import LedgerError
from truestep.ledger import read, summarize

Attempts = Callable[..., list[Outcome]]
Write = Callable[..., Path]
SKIP = {"reason": "forward overflow", "place": None, "detail": "", "curable": True}


def test_totals_are_those_of_the_outcomes(write: Write, make_attempts: Attempts) -> None:
    recorded = make_attempts([None, Reason.BACKWARD, None, None])
    summary = summarize(read(write(recorded)))
    assert summary.counts == recorded[-1].counts
    assert summary.policies == ("fp16",)
    assert summary.loss_scale == (2.0, 16.0)
    assert summary.skip_rate == 0.25
    assert summary.seconds == 2.0
    assert summary.examples_per_second == 24 / 2.0
    assert summary.tokens_per_second == 30 / 2.0
    assert (summary.wasted_attempts, summary.missing_attempts) == (0, 0)


def test_work_rolled_back_is_waste_and_is_not_counted_twice(write: Write, make_attempts: Attempts) -> None:
    first = make_attempts([None, None, Reason.FORWARD, None])
    second = make_attempts([None, None], after=first[1].counts)
    path = write(first)
    write(second, resume=True)
    summary = summarize(read(path))
    assert summary.counts == second[-1].counts
    assert summary.counts.attempts == summary.counts.completed == 4
    assert (summary.wasted_attempts, summary.wasted_examples, summary.wasted_seconds) == (2, 16, 1.0)
    # 32 examples applied in 2 s that stand and 1 s that does not
    assert summary.examples_per_second == 32 / 3.0


def test_the_stages_of_attempts_that_stand_add_up_to_the_seconds_of_those_that_were_timed(
    write: Write, make_attempts: Attempts
) -> None:
    first, second, third, rolled_back = make_attempts([None] * 4)
    timed = [
        first,
        replace(second, seconds_by_stage={"zero": 0.125, "forward": 0.375}),
        replace(third, seconds_by_stage={"zero": 0.25, "forward": 0.125, "explain": 0.125}),
        replace(rolled_back, seconds_by_stage={"zero": 64.0}),
    ]
    path = write(timed)
    write(make_attempts([None], after=third.counts), resume=True)
    summary = summarize(read(path))
    assert summary.staged_attempts == 2
    assert list(summary.stages) == ["zero", "forward", "explain"]
    assert [(stage.attempts, stage.seconds) for stage in summary.stages.values()] == [(2, 0.375), (2, 0.5), (1, 0.125)]
    assert sum(stage.seconds for stage in summary.stages.values()) == second.seconds + third.seconds
    assert summary.as_dict()["stages"]["forward"] == {"attempts": 2, "seconds": 0.5}


def test_without_timed_attempts_there_are_no_stages(write: Write, make_attempts: Attempts) -> None:
    summary = summarize(read(write(make_attempts([None]))))
    assert (summary.staged_attempts, summary.stages) == (0, {})


def test_a_ledger_without_an_attempt_has_no_rates(write: Write) -> None:
    summary = summarize(read(write([])))
    assert (summary.counts.attempts, summary.skip_rate, summary.examples_per_second) == (0, None, None)
    assert summary.loss_scale is None


def test_attempts_without_a_line_are_told_and_no_rate_is_claimed(write: Write, make_attempts: Attempts) -> None:
    summary = summarize(read(write(make_attempts([None] * 6)[4:])))
    assert (summary.counts.attempts, summary.missing_attempts, summary.examples_per_second) == (6, 4, None)


def test_tokens_that_are_not_counted_stay_absent(write: Write, make_attempts: Attempts) -> None:
    summary = summarize(read(write(make_attempts([None], tokens=None))))
    assert (summary.counts.tokens_seen, summary.tokens_per_second) == (None, None)


@pytest.mark.parametrize("change", [{"skip": SKIP}, {"examples": 7}, {"tokens": 9}])
def test_lines_that_do_not_add_up_are_refused(write: Write, make_attempts: Attempts, change: dict[str, object]) -> None:
    path = write(make_attempts([None] * 3))
    lines = path.read_text().splitlines(keepends=True)
    lines[1] = json.dumps(json.loads(lines[1]) | change) + "\n"
    path.write_text("".join(lines))
    with pytest.raises(LedgerError, match="the lines add up to"):
        summarize(read(path))


def test_every_field_reaches_the_dictionary_and_it_is_strict_json(write: Write, make_attempts: Attempts) -> None:
    path = write(make_attempts([None, Reason.BACKWARD]))
    summary = summarize(read(path))
    document = json.loads(json.dumps(summary.as_dict(), allow_nan=False))
    assert document["counts"]["skipped"] == document["counts"]["attempts"] - document["counts"]["completed"] == 1
    assert document["counts"]["skipped_by_reason"] == {"backward overflow": 1}
    assert document["skip_rate"] == 0.5
    assert document["examples_per_second"] == 8.0
    assert document["loss_scale"] == [2.0, 4.0]
    assert document["waste"] == {"attempts": 0, "examples": 0, "seconds": 0.0}
