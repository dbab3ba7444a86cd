"""The shelf finds a lab by its name, and says what may have been meant where there is none."""

import pytest

from truestep.errors import UsageError
from truestep.labs.shelf import lab, labs


@pytest.mark.parametrize(
    ("name", "meant"),
    [("clip-oder", "clip-order"), ("Clip-Order", "clip-order"), ("clip_order", "clip-order"), ("nintey", "ninety")],
)
def test_a_name_that_is_nearly_right_is_told_with_those_like_it_alone(name, meant):
    with pytest.raises(UsageError, match=f"no lab called '{name}'") as caught:
        lab(name)
    assert caught.value.hint.startswith(f"did you mean {meant}")
    assert "told-apart" not in caught.value.hint


def test_a_name_like_no_other_is_told_with_all():
    with pytest.raises(UsageError) as caught:
        lab("xyzzy")
    assert caught.value.hint == f"choose one of: {', '.join(each.name for each in labs())}"


def test_every_lab_is_found_by_its_name():
    assert all(lab(each.name) is each for each in labs())
