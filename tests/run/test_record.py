"""A record survives its dictionary, and nothing else is taken for one."""

import json
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import pytest

from truestep import Counts
from truestep.errors import RecordError
from truestep.run import Evaluation, RunRecord, ToTarget
from truestep.run.clocks import Clocks

FULL = RunRecord(
    candidate="fp16 clip=1",
    seed=3,
    status="reached",
    detail="words",
    hint="more words",
    counts=Counts(
        attempts=11,
        completed=8,
        skipped_by_reason=MappingProxyType({"backward overflow": 3}),
        consecutive_skips=1,
        examples_seen=704,
        examples_applied=512,
        tokens_seen=13,
        tokens_applied=9,
        ticks=7,
    ),
    clocks=Clocks(init=0.1, train=1 / 3, eval=0.3, checkpoint=0.4, waste=0.5),
    total_seconds=1.6333333333333335,
    cpu_seconds=1.5,
    to_target=ToTarget(seconds=0.7, attempts=10, completed=8, examples=640, tokens=12),
    evaluations=(
        Evaluation(examples=320, completed=4, quality=2 / 3, train_seconds=0.2),
        Evaluation(examples=640, completed=8, quality=0.97, train_seconds=0.3),
    ),
    test_quality=0.95,
    data_digest="dd",
    initial_digest="aa",
    weights_digest="bb",
    ledger="ledgers/a.jsonl",
    device="cpu",
    emulated=True,
    environment={"torch": "2"},
    protocol_hash="cc",
)
ABSENT = replace(
    FULL,
    detail=None,
    hint=None,
    cpu_seconds=None,
    counts=Counts(),
    clocks=Clocks(),
    to_target=None,
    evaluations=(),
    test_quality=None,
    data_digest=None,
    initial_digest=None,
    weights_digest=None,
    ledger=None,
    protocol_hash=None,
)


def through_json(record: RunRecord) -> RunRecord:
    return RunRecord.from_dict(json.loads(json.dumps(record.as_dict(), allow_nan=False)))


def test_every_field_survives_with_none_at_its_default() -> None:
    for value in (FULL, FULL.counts, FULL.clocks):
        assert not [field.name for field in fields(value) if getattr(value, field.name) in (field.default, None, 0)]
    assert through_json(FULL) == FULL


def test_every_absent_value_stays_absent() -> None:
    assert through_json(ABSENT) == ABSENT


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_quality_that_is_not_finite_survives_in_strict_json(value: float) -> None:
    lost = replace(FULL.evaluations[0], quality=value)
    survived = through_json(replace(FULL, evaluations=(lost,), test_quality=value))
    # repr calls NaN equal to itself
    assert repr(survived.evaluations) == repr((lost,))
    assert repr(survived.test_quality) == repr(value)


def test_the_dictionary_is_what_a_comparison_reads() -> None:
    record = FULL.as_dict()
    assert record["schema"] == 1
    assert record["counts"]["skipped_by_reason"] == {"backward overflow": 3}
    assert record["clocks"] == {"init": 0.1, "train": 1 / 3, "eval": 0.3, "checkpoint": 0.4, "waste": 0.5}
    assert record["to_target"] == {"seconds": 0.7, "attempts": 10, "completed": 8, "examples": 640, "tokens": 12}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 2}, "schema 2"),
        ({"schema": None}, "schema None"),
        ({"luck": 1}, "unknown: luck"),
        ({"counts": None}, "wrong kind"),
        ({"counts": {}}, "wrong kind"),
        ({"clocks": {"lunch": 1.0}}, "wrong kind"),
        ({"to_target": {}}, "wrong kind"),
        ({"evaluations": [{"quality": 1.0}]}, "wrong kind"),
        ({"evaluations": 3}, "wrong kind"),
        ({"test_quality": "fine"}, "wrong kind"),
    ],
)
def test_what_is_no_record_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(RecordError, match=words):
        RunRecord.from_dict(FULL.as_dict() | change)


@pytest.mark.parametrize("name", [field.name for field in fields(RunRecord)])
def test_a_record_that_lacks_a_field_is_refused_by_its_name(name: str) -> None:
    record = FULL.as_dict()
    del record[name]
    with pytest.raises(RecordError, match=name):
        RunRecord.from_dict(record)
