"""What was seen survives being written down, whatever it is; what was not written by us is refused by name."""

import dataclasses
import functools
import json
import math
import types
import typing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.profile import FULL
from truestep.audit import events
from truestep.audit.events import Event
from truestep.audit.finding import Finding
from truestep.audit.plain import plain, read
from truestep.audit.site import Place, Site
from truestep.audit.story import Totals
from truestep.errors import RecordError

EVENTS = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]

DRAWN = settings(max_examples=200 if FULL else 10, deadline=None, suppress_health_check=list(HealthCheck))
"""Few of each of the many classes: what can go wrong is the kind of a field, not its value."""


@functools.cache
def values(hint):
    """Every value of a type; of a dataclass, those with no field at its default."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        found = st.one_of(*map(values, arguments))
    elif origin is typing.Literal:
        found = st.sampled_from(arguments)
    elif origin is tuple:
        found = st.lists(values(arguments[0]), max_size=2).map(tuple)
    elif origin is dict:
        found = st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
    elif dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        found = st.builds(hint, **{each.name: _but_default(each, hints[each.name]) for each in dataclasses.fields(hint)})
    else:
        found = {
            type(None): st.none(),
            bool: st.booleans(),
            int: st.integers(),
            str: st.text(max_size=4),
            float: st.floats(),
        }[hint]
    return found


def _but_default(field, hint):
    """Told by kind, not by a filter: of a class with many defaults, a filter leaves nothing."""
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    if default is None:
        return st.one_of(*(values(each) for each in typing.get_args(hint) if each is not type(None)))
    if default == () and typing.get_origin(hint) is tuple:
        return st.lists(values(typing.get_args(hint)[0]), min_size=1, max_size=2).map(tuple)
    if isinstance(default, bool):
        return st.just(not default)
    return values(hint) if default is dataclasses.MISSING else values(hint).filter(lambda value: value != default)


def again(kind, value):
    return read(kind, json.loads(json.dumps(plain(value), allow_nan=False)))


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@DRAWN
@given(data=st.data())
def test_every_event_is_read_back_as_it_was(kind, data):
    event = data.draw(values(kind))
    assert repr(again(Event, event)) == repr(event)  # by repr, for which a nan is as good as another


@pytest.mark.parametrize("kind", [Totals, Finding])
@DRAWN
@given(data=st.data())
def test_so_are_totals_and_findings(kind, data):
    value = data.draw(values(kind))
    assert repr(again(kind, value)) == repr(value)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -0.0, 5e-324])
def test_a_number_survives_without_words_that_json_lacks(number):
    event = events.PenaltyInScaledUnits(order=1, site=None, scale=number, operation="pow")
    assert repr(again(Event, event).scale) == repr(number)


EDITED = {
    "order": 3,
    "site": {"place": {"path": "a.py", "line": 1, "function": "f"}, "callers": [], "library": None, "below_library": None},
    "operation": "mul_",
    "optimizers": [0],
    "carried": 1.0,
    "ratio": None,
    "cosine": None,
    "hid": False,
    "reduced": True,
    "commutes": False,
    "reshapes": True,
}


def test_an_event_is_written_under_the_name_of_its_class():
    edited = read(Event, {"Edited": EDITED})
    assert edited == events.Edited(
        order=3,
        site=Site(Place("a.py", 1, "f")),
        operation="mul_",
        optimizers=(0,),
        carried=1.0,
        ratio=None,
        cosine=None,
        hid=False,
        reduced=True,
        commutes=False,
        reshapes=True,
    )
    assert plain(edited) == {"Edited": EDITED}


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"Cooked": {}}, "there is no event 'Cooked'"),
        ({"Literal": {}}, "there is no event 'Literal'"),
        ({"Judged": {"expected": 1.0, "observed": 1.0, "cosine": None, "clipped": 1.0}}, "there is no event 'Judged'"),
        ({"Edited": EDITED | {"salt": 1}}, "Edited has an unknown field 'salt'"),
        ({"Edited": {name: each for name, each in EDITED.items() if name != "reduced"}}, "Edited has no field 'reduced'"),
        ({"Edited": [1]}, "Edited has no fields"),
        ({"Edited": EDITED | {"site": EDITED["site"] | {"place": None}}}, "Edited.site.place cannot be None"),
        ({"Edited": EDITED | {"order": True}}, "Edited.order cannot be True"),
        ({"Edited": EDITED | {"order": 1.0}}, "Edited.order cannot be 1.0"),
        ({"Edited": EDITED | {"hid": 0}}, "Edited.hid cannot be 0"),
        ({"Edited": EDITED | {"carried": "much"}}, "Edited.carried cannot be 'much'"),
        ({"Edited": EDITED | {"carried": None}}, "Edited.carried cannot be None"),
        ({"Edited": EDITED | {"optimizers": 0}}, "Edited.optimizers cannot be 0"),
        ({"Restored": {"order": 1, "site": None, "what": "dog", "which": 0}}, "Restored.what cannot be 'dog'"),
        ({}, "Event cannot be {}"),
        (None, "Event cannot be None"),
    ],
)
def test_what_no_event_holds_is_refused_by_name(value, complaint):
    with pytest.raises(RecordError) as raised:
        read(Event, value)
    assert raised.value.summary == complaint


def test_a_key_that_is_no_number_is_refused():
    with pytest.raises(RecordError, match=r"Totals\.attempts has a key 'first'"):
        read(Totals, plain(Totals()) | {"attempts": {"first": 1}})
