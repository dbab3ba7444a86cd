"""Stages of several attempts become medians and shares."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from truestep.pages.words import SPACE
from truestep.timing import report
from truestep.timing.measured import Asked, Attempted, Table, table_of


def attempted(
    stages: Mapping[str, float],
    device: Mapping[str, float] | None = None,
    *,
    update: int = 0,
    skipped: bool = False,
    since: float | None = None,
) -> Attempted:
    return Attempted(
        update=update,
        policy="fp16",
        skipped=skipped,
        seconds=sum(stages.values()),
        seconds_by_stage=stages,
        device_seconds_by_stage=device,
        seconds_since=since,
    )


def table(*attempts: Attempted, device: str = "cpu", **asked: object) -> Table:
    values = {"after": 3, "attempts": len(attempts), "begun": 9, "beside_another": False, "trace": None, "trace_error": None}
    return table_of(attempts, asked=Asked(**values | asked), device=device)


def test_one_disturbed_attempt_decides_on_no_column() -> None:
    quiet = {"forward": 1.0, "apply": 3.0}
    found = table(attempted(quiet), attempted({"forward": 100.0, "apply": 3.0}), attempted(quiet))
    assert [(stage.name, stage.median_seconds, stage.share) for stage in found.stages] == [
        ("forward", 1.0, 0.25),
        ("apply", 3.0, 0.75),
    ]
    assert (found.median_seconds, found.least_seconds, found.most_seconds) == (4.0, 4.0, 103.0)


def test_a_stage_that_few_attempts_come_to_has_its_median_over_these_and_the_share_of_these() -> None:
    plain, skip = {"forward": 1.0, "apply": 1.0}, {"forward": 1.0, "explain": 3.0}
    found = table(attempted(plain), attempted(skip, skipped=True), attempted(plain))
    rows = {stage.name: (stage.attempts, stage.median_seconds, stage.share) for stage in found.stages}
    assert rows == {"forward": (3, 1.0, 3 / 8), "apply": (2, 1.0, 2 / 8), "explain": (1, 3.0, 3 / 8)}
    assert list(rows) == ["forward", "apply", "explain"], "in the order of the stages, whatever came first"
    assert found.skipped == 1


def test_the_time_between_attempts_is_a_median_of_what_was_measured() -> None:
    stages = {"forward": 1.0}
    found = table(attempted(stages), attempted(stages, since=2.0), attempted(stages, since=8.0), attempted(stages, since=3.0))
    assert found.between_median_seconds == 3.0
    assert table(attempted(stages)).between_median_seconds is None


def test_a_device_has_shares_of_its_own() -> None:
    found = table(attempted({"forward": 1.0, "judge": 3.0}, {"forward": 3.0, "judge": 1.0}), device="cuda:0")
    assert [(stage.device_median_seconds, stage.device_share) for stage in found.stages] == [(3.0, 0.75), (1.0, 0.25)]
    assert found.device_median_seconds == 4.0
    assert report.rows(found)[0] == ("forward", f"1.00{SPACE}s", f"25{SPACE}%", f"3.00{SPACE}s", f"75{SPACE}%")
    assert {len(row) for row in report.rows(found)} == {len(report.columns(found))} == {5}


def test_no_time_at_all_has_no_share() -> None:
    found = table(attempted({"forward": 0.0}, {"forward": 0.0}), device="cuda:0")
    assert (found.stages[0].share, found.stages[0].device_share) == (0.0, None)
    assert json.loads(json.dumps(found.record(), allow_nan=False))["stages"][0]["share"] == 0.0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"attempts": 3}, "1 attempt fewer than asked"),
        ({"beside_another": True}, "another torch.profiler was recording: its own cost is in these seconds"),
        ({"trace": "/a/trace.json"}, "trace  /a/trace.json"),
        ({"trace_error": "no trace was written"}, "no trace was written"),
    ],
)
def test_what_the_table_does_not_say_is_said_below_it(asked: dict[str, object], words: str) -> None:
    plain = attempted({"forward": 1.0})
    assert words in list(report.sentences(table(plain, plain, **asked)))
    assert words not in list(report.sentences(table(plain, plain)))
