"""Events and their like as plain JSON values and back, by their type hints alone; what no class holds is refused by name."""

from __future__ import annotations

import math
import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from truestep.audit import events
from truestep.errors import RecordError

Kind = TypeVar("Kind")

_WORDS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
"""Numbers that JSON has no word for."""

FOREIGN = "it was written by another version of truestep"


def plain(value: Any) -> Any:
    """`value`, a dataclass or what its fields hold, as a JSON value: an event is `{its class: its fields}`.

    >>> from truestep.audit.events import PenaltyInScaledUnits
    >>> plain(PenaltyInScaledUnits(order=7, site=None, scale=float("inf"), operation="pow"))
    {'PenaltyInScaledUnits': {'order': 7, 'site': None, 'scale': 'inf', 'operation': 'pow'}}
    """
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    kind: Any = type(value)
    written = {name: plain(getattr(value, name)) for name in _hints(kind)}
    return {kind.__name__: written} if isinstance(value, events.Event) else written


def read(kind: type[Kind], value: Any) -> Kind:
    """The `kind` that `plain` made `value` of: a dataclass, or `Event` for an event of any class.

    RecordError for an unknown event or field, a missing field, and a value that its field cannot hold.

    >>> read(events.Event, {"PenaltyInScaledUnits": {"order": 7, "site": None, "scale": "inf", "operation": "pow"}})
    PenaltyInScaledUnits(order=7, site=None, scale=inf, operation='pow')
    """
    found: Kind = _read(kind, value, kind.__name__)
    return found


def _read(hint: Any, value: Any, where: str) -> Any:  # noqa: PLR0911 - one line for each kind of type
    """`value` as the type `hint` has it; `where` names the field."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        (inner,) = set(arguments) - {type(None)}
        return None if value is None else _read(inner, value, where)
    if origin is Literal and isinstance(value, str) and value in arguments:
        return value
    if origin is tuple and isinstance(value, list):
        return tuple(_read(arguments[0], each, where) for each in value)
    if origin is dict and isinstance(value, dict):
        return {_key(arguments[0], key, where): _read(arguments[1], each, where) for key, each in value.items()}
    if hint is events.Event:
        if isinstance(value, dict) and len(value) == 1:
            ((name, written),) = value.items()
            return _fields(_event(name), written, name)
    elif is_dataclass(hint) and isinstance(value, dict):
        return _fields(hint, value, where)
    if hint is float and (value in _WORDS if isinstance(value, str) else type(value) in (int, float)):
        return _WORDS[value] if isinstance(value, str) else float(value)
    if hint in (bool, int, str) and type(value) is hint:
        return value
    raise RecordError(f"{where} cannot be {value!r}", hint=FOREIGN, where=where)


def _fields(kind: Any, written: Any, where: str) -> Any:
    hints = _hints(kind)
    if not isinstance(written, dict) or written.keys() != hints.keys():
        names = sorted(set(written) ^ set(hints)) if isinstance(written, dict) else []
        wrong = [f"an unknown field {name!r}" if name in written else f"no field {name!r}" for name in names] or ["no fields"]
        raise RecordError(f"{where} has {', '.join(wrong)}", hint=FOREIGN, where=where, fields=names)
    return kind(**{name: _read(hint, written[name], f"{where}.{name}") for name, hint in hints.items()})


def _key(hint: Any, key: str, where: str) -> Any:
    if hint is str:
        return key
    try:
        return int(key)
    except ValueError:
        raise RecordError(f"{where} has a key {key!r}, which is no whole number", hint=FOREIGN, where=where) from None


def _event(name: str) -> type[events.Event]:
    kind = getattr(events, name, None)
    if not (isinstance(kind, type) and issubclass(kind, events.Event)):
        raise RecordError(f"there is no event {name!r}", hint=FOREIGN, event=name)
    return kind


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """The type of each field."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
