"""Equal values have equal bytes, and what is read is JSON and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truestep.disk.canonical import canonical, digest, parsed

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10)


@given(VALUES)
def test_a_value_is_read_back_as_it_was_written(value):
    assert parsed(canonical(value)) == value
    assert canonical(parsed(canonical(value))) == canonical(value)


@given(st.dictionaries(st.text(), VALUES, min_size=2))
def test_the_order_of_keys_makes_no_difference(value):
    assert digest(dict(reversed(value.items()))) == digest(value)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_json_has_no_word_for_is_not_written(number):
    with pytest.raises(ValueError, match="JSON"):
        canonical([number])


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": 1, "a": 2}', "", "{", "[" * 100_000, b"\xff"])
def test_what_is_no_json_is_not_read(text):
    with pytest.raises(ValueError, match=r"."):
        parsed(text)
