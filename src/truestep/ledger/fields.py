"""Every field of a ledger's lines, by the line's kind, and what may stand in it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from truestep.engine.outcome import Reason

NOT_FINITE = frozenset({"nan", "inf", "-inf"})
"""How strict JSON holds the floats that it has no numbers for."""
_REASONS = frozenset(Reason)
_LARGEST = 2**1023
_ABSENT = object()  # fits nowhere


class Kind(NamedTuple):
    """What may stand in a field: in words, by exact type (a bool is no int), and by a closer look at what is of no such type."""

    words: str
    types: frozenset[type]
    fits: Callable[[Any], bool] = lambda value: False

    @property
    def or_null(self) -> Kind:
        """The same, or null."""
        return Kind(f"{self.words} or null", self.types | {type(None)}, self.fits)

    @property
    def or_absent(self) -> Kind:
        """The same, or no such field: a line that was not asked for it, or is of a version that did not know it."""
        return Kind(self.words, self.types | {type(_ABSENT)}, self.fits)


def _is_rare_number(value: Any) -> bool:
    """A number that is no float: an integer that one can hold, or what stands for a float that is not finite."""
    return (type(value) is int and abs(value) <= _LARGEST) or (type(value) is str and value in NOT_FINITE)


def _are_numbers(values: Any) -> bool:
    return all(type(value) is float or _is_rare_number(value) for value in values)


TEXT = Kind("a text", frozenset({str}))
WHOLE = Kind("a whole number", frozenset({int}))
YES_OR_NO = Kind("true or false", frozenset({bool}))
OBJECT = Kind("an object", frozenset({dict}))
NUMBER = Kind("a number", frozenset({float}), _is_rare_number)
NUMBERS = Kind("a list of numbers", frozenset(), lambda value: type(value) is list and _are_numbers(value))
BY_TERM = Kind("an object of numbers", frozenset(), lambda value: type(value) is dict and _are_numbers(value.values()))
WEIGHT = Kind("a number, an object of numbers", frozenset({float}), lambda value: _is_rare_number(value) or BY_TERM.fits(value))
BY_REASON = Kind(
    "an object of whole numbers",
    frozenset(),
    lambda value: type(value) is dict and all(type(count) is int for count in value.values()),
)
REASON = Kind("a reason to skip", frozenset(), lambda value: type(value) is str and value in _REASONS)

_COUNTS = {
    "attempts": WHOLE,
    "completed": WHOLE,
    "skipped_by_reason": BY_REASON,
    "consecutive_skips": WHOLE,
    "examples_seen": WHOLE,
    "examples_applied": WHOLE,
    "tokens_seen": WHOLE.or_null,
    "tokens_applied": WHOLE.or_null,
    "ticks": WHOLE,
}
_SKIP = {
    "reason": REASON,
    "place": TEXT.or_null,
    "detail": TEXT,
    "curable": YES_OR_NO,
}
FIELDS: Mapping[str, Mapping[str, Kind]] = {
    "header": {
        "kind": TEXT,
        "schema": WHOLE,
        "run_id": TEXT,
        "created": TEXT,
        "environment": OBJECT,
        "policy": TEXT.or_null,
        "protocol_hash": TEXT.or_null,
    },
    "resume": {"kind": TEXT, "attempts": WHOLE, "created": TEXT, "environment": OBJECT},
    "attempt": {
        "kind": TEXT,
        "attempt": WHOLE,
        "policy": TEXT,
        "completed": YES_OR_NO,
        "skip": OBJECT.or_null,
        "train/loss": NUMBER.or_null,
        "train/losses": BY_TERM.or_null,
        "lr": NUMBERS,
        "grad_norm": NUMBER.or_null,
        "grad_norm_clipped": NUMBER.or_null,
        "amp/loss_scale": NUMBER,
        "amp/next_loss_scale": NUMBER,
        "amp/skipped_total": WHOLE,
        "weight": WEIGHT.or_null,
        "weight_check": TEXT,
        "microbatches": WHOLE,
        "examples": WHOLE.or_null,
        "tokens": WHOLE.or_null,
        "seconds": NUMBER,
        "parameters_moved": YES_OR_NO.or_null,
        "perf/examples_per_s": NUMBER.or_null,
        "perf/tokens_per_s": NUMBER.or_null,
        "perf/seconds_by_stage": BY_TERM.or_absent,
        "counts": OBJECT,
    },
    "alarm": {
        "kind": TEXT,
        "attempt": WHOLE,
        "limit": NUMBER,
        "attempts": WHOLE,
        "skipped_by_reason": BY_REASON,
        "place": TEXT.or_null,
        "detail": TEXT,
        "next_loss_scale": NUMBER,
    },
    "sink": {"kind": TEXT, "sink": TEXT, "attempts": WHOLE, "seconds": NUMBER, "error": TEXT.or_null},
}


def fault(record: Mapping[str, Any]) -> str | None:
    """What is wrong with a line of one of these kinds, naming the field; None where nothing is.

    >>> fault({"kind": "resume", "attempts": "one", "created": "", "environment": {}})
    'holds "one" as attempts, where a whole number belongs'
    >>> fault({"kind": "resume", "attempts": 1})
    'lacks created, environment'
    """
    kinds = FIELDS[record["kind"]]
    found = _first_fault(record, kinds)
    if found is None and record["kind"] == "attempt":
        found = _first_fault(record["counts"], _COUNTS, "counts.")
        if found is None and record["skip"] is not None:
            found = _first_fault(record["skip"], _SKIP, "skip.")
    return found


def _first_fault(record: Mapping[str, Any], kinds: Mapping[str, Kind], inside: str = "") -> str | None:
    for name, (words, types, fits) in kinds.items():
        value = record.get(name, _ABSENT)
        if type(value) not in types and not fits(value):
            missing = sorted(name for name, kind in kinds.items() if name not in record and type(_ABSENT) not in kind.types)
            if missing:
                return f"lacks {', '.join(inside + each for each in missing)}"
            return f"holds {_shown(value)} as {inside}{name}, where {words} belongs"
    return None


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
