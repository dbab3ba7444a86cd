"""The protocol: canonical form, hash, refusals."""

import dataclasses
import hashlib
import json
import math

import pytest

from truestep import errors
from truestep.compare import Protocol
from truestep.compare.protocol import first_difference


def other(value):
    """A value of the same type that differs."""
    match value:
        case dict():
            return value | {"more": next(iter(value.values()))}
        case tuple():
            return tuple(reversed(value)) if len(value) > 1 else (*value, "quality")
        case bool():
            return not value
        case str():
            return "lower" if value == "higher" else value + " changed"
        case float():
            return value / 2
    return value + 1


def test_round_trip_keeps_every_field(declare):
    protocol = declare()
    assert Protocol.from_dict(json.loads(protocol.canonical())) == protocol
    absent = declare(budget_seconds=None)
    assert Protocol.from_dict(json.loads(absent.canonical())) == absent


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Protocol)])
def test_every_field_moves_the_hash_and_is_named_as_the_difference(declare, field):
    protocol = declare()
    changed = dataclasses.replace(protocol, **{field: other(getattr(protocol, field))})
    assert changed.hash != protocol.hash
    name, ours, theirs = first_difference(protocol, changed)
    assert name == field
    assert ours != theirs


def test_equal_protocols_do_not_differ(declare):
    assert first_difference(declare(), declare()) is None


def test_the_first_difference_is_the_first_in_the_order_of_declaration(declare):
    assert first_difference(declare(), declare(alpha=0.01, target=0.9))[0] == "target"


def test_the_hash_is_that_of_sorted_ascii_json_without_spaces(declare):
    protocol = declare(model="größer")
    plain = json.dumps(protocol.as_dict(), sort_keys=True, separators=(",", ":"))
    assert protocol.hash == hashlib.sha256(plain.encode()).hexdigest()
    assert protocol.canonical().isascii()
    assert (
        b" "
        not in declare(
            **dict.fromkeys(("optimizer", "schedule", "target_from", "evaluation", "order"), "x"), primary_clock="x"
        ).canonical()
    )


def test_one_and_one_point_zero_are_the_same_target(declare):
    assert declare(target=1).hash == declare(target=1.0).hash


def test_the_order_of_a_mapping_does_not_move_the_hash(declare):
    turned = dict(reversed(declare().splits.items()))
    assert declare(splits=turned).hash == declare().hash


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"candidates": ()}, "no candidates"),
        ({"candidates": ("fp32", "fp16", "fp32")}, "'fp32' stands twice"),
        ({"candidates": ("fp32", "fp16 again")}, "only the baseline runs again"),
        ({"candidates": ("fp32 again", "fp32")}, "only the baseline runs again"),
        ({"seeds": ()}, "no seeds"),
        ({"seeds": (1, 1)}, "seeds are different"),
        ({"seeds": (0, -1)}, "seeds are different"),
        ({"target": math.nan}, "target is no number"),
        ({"target": math.inf}, "target is no number"),
        ({"batch": 0}, "batch has to be 1 or more"),
        ({"evaluate_every": 0}, "evaluate_every has to be 1 or more"),
        ({"budget_attempts": 0}, "budget_attempts has to be 1 or more"),
        ({"threads": 0}, "threads has to be 1 or more"),
        ({"max_consecutive_skips": 0}, "max_consecutive_skips has to be 1 or more"),
        ({"budget_seconds": 0.0}, "budget_seconds has to be finite and above 0"),
        ({"budget_seconds": math.inf}, "budget_seconds has to be finite and above 0"),
        ({"margin_examples": 0.0}, "margin_examples has to be finite and above 0"),
        ({"margin_quality": None}, "margin_quality is not declared"),
        ({"margin_quality": math.nan}, "margin_quality has to be finite and above 0"),
        ({"warmup_attempts": -1}, "warm-up"),
        ({"alpha": 1.0}, "alpha"),
        ({"microbatches": 65}, "no more microbatches than examples"),
        ({"candidates": ("fp32", "fp16 accumulate=65")}, "no more microbatches than examples"),
    ],
)
def test_what_cannot_be_declared_is_refused_by_name(declare, changes, named):
    with pytest.raises(errors.ProtocolError, match=named) as caught:
        declare(**changes)
    assert caught.value.hint


def test_the_baseline_may_run_again(declare):
    assert declare(candidates=("fp32", "fp32 again", "fp16")).baseline == "fp32"


def test_another_schema_is_refused(declare):
    with pytest.raises(errors.RecordError, match="schema 2"):
        Protocol.from_dict(declare().as_dict() | {"schema": 2})


@pytest.mark.parametrize(
    "values", [{"candidates": 5}, {"candidates": [5]}, {"seeds": None}, {"target": "high"}, {"batch": 0}, {"batch": "many"}]
)
def test_a_value_that_no_protocol_has_is_refused_as_a_record(declare, values):
    with pytest.raises(errors.RecordError, match="a value that none has"):
        Protocol.from_dict(declare().as_dict() | values)


def test_missing_and_unknown_fields_are_refused_by_name(declare):
    record = declare().as_dict()
    del record["alpha"]
    with pytest.raises(errors.RecordError, match="alpha, beta"):
        Protocol.from_dict(record | {"beta": 1})
