"""An outcome survives its line without loss."""

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from truestep.engine.outcome import Outcome
from truestep.ledger.fields import FIELDS, fault
from truestep.ledger.records import attempt_record, outcome_of


def through_json(outcome: Outcome) -> Outcome:
    return outcome_of(json.loads(json.dumps(attempt_record(outcome), allow_nan=False)))


def test_every_field_survives_with_none_at_its_default(full_outcome: Outcome) -> None:
    for value in (full_outcome, full_outcome.counts):
        assert not [field.name for field in fields(value) if getattr(value, field.name) in (field.default, None, 0)]
    assert through_json(full_outcome) == full_outcome


def test_every_absent_value_stays_absent(plain_outcome: Outcome) -> None:
    assert through_json(plain_outcome) == plain_outcome


@pytest.mark.parametrize("field", ["loss", "grad_norm", "grad_norm_clipped", "weight", "seconds", "loss_scale"])
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), -0.0, 5e-324, 1.7976931348623157e308])
def test_every_float_survives_in_strict_json(full_outcome: Outcome, field: str, value: float) -> None:
    survived = through_json(replace(full_outcome, **{field: value}))
    # repr tells -0.0 from 0.0 and calls NaN equal to itself
    assert repr(getattr(survived, field)) == repr(value)


def test_learning_rates_that_are_not_finite_survive(full_outcome: Outcome) -> None:
    assert repr(through_json(replace(full_outcome, lr=(float("nan"), float("inf")))).lr) == "(nan, inf)"


@pytest.mark.parametrize("weight", [None, 7.7, {"text": 0.1, "image": 12.0, "gate": float("inf")}, {}])
def test_one_total_or_one_for_each_term_survives(full_outcome: Outcome, weight: Any) -> None:
    outcome = replace(full_outcome, weight=weight)
    assert fault(attempt_record(outcome)) is None
    assert through_json(outcome) == outcome


def test_a_line_has_the_declared_keys_and_no_other(full_outcome: Outcome) -> None:
    assert attempt_record(full_outcome).keys() == FIELDS["attempt"].keys()


def test_a_skip_applies_nothing_so_its_rates_are_zero(full_outcome: Outcome) -> None:
    record = attempt_record(full_outcome)
    assert (record["perf/examples_per_s"], record["perf/tokens_per_s"]) == (0.0, 0.0)


def test_a_rate_is_what_was_applied_by_the_attempts_own_seconds(full_outcome: Outcome) -> None:
    record = attempt_record(replace(full_outcome, skip=None, seconds=0.5))
    assert (record["perf/examples_per_s"], record["perf/tokens_per_s"]) == (128.0, 2468.0)


def test_a_rate_without_time_or_tokens_is_absent(plain_outcome: Outcome) -> None:
    assert attempt_record(plain_outcome)["perf/tokens_per_s"] is None
    assert attempt_record(plain_outcome)["perf/examples_per_s"] is None
    assert attempt_record(replace(plain_outcome, examples=8, seconds=0.0))["perf/examples_per_s"] is None


def test_a_line_that_was_not_asked_for_stages_has_no_such_field_and_is_whole(full_outcome: Outcome) -> None:
    record = attempt_record(replace(full_outcome, seconds_by_stage=None))
    assert "perf/seconds_by_stage" not in record
    assert fault(record) is None
    assert through_json(replace(full_outcome, seconds_by_stage=None)).seconds_by_stage is None


def test_a_line_that_lacks_a_field_is_not_said_to_lack_one_that_need_not_be_there(full_outcome: Outcome) -> None:
    record = attempt_record(replace(full_outcome, seconds_by_stage=None))
    del record["tokens"]
    assert fault(record) == "lacks tokens"


@pytest.mark.parametrize("wrong", [None, 1.0, [0.5], {"forward": "long"}, {"forward": None}])
def test_stages_that_are_no_numbers_by_name_are_refused(full_outcome: Outcome, wrong: Any) -> None:
    record = attempt_record(full_outcome) | {"perf/seconds_by_stage": wrong}
    assert str(fault(record)).endswith("as perf/seconds_by_stage, where an object of numbers belongs")
