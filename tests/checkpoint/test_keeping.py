"""Kept are the last few and the best, whatever the order of qualities."""

import math
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from truestep.checkpoint.description import Description
from truestep.checkpoint.keeping import best_first, in_excess, newest_first
from truestep.engine.counts import Counts

QUALITIES = st.lists(st.none() | st.floats(), min_size=1, max_size=12)


def saved(qualities):
    return {
        Path(f"{serial}"): Description(
            serial=serial, counts=Counts(attempts=100 - serial), quality=quality, policy="fp32", torch="2", truestep="1"
        )
        for serial, quality in enumerate(qualities)
    }


@given(QUALITIES, st.integers(1, 4), st.sampled_from(["higher", "lower", None]))
def test_a_folder_pruned_after_each_save_holds_the_last_few_and_the_best_of_all(qualities, keep_last, better):
    everything, there = saved(qualities), {}
    for path, description in everything.items():
        there[path] = description
        for old in in_excess(there, keep_last=keep_last, better=better):
            del there[old]
    finite = [quality for quality in qualities if quality is not None and math.isfinite(quality)]
    last = set(list(everything)[-keep_last:])
    assert last <= set(there)
    if better is None or not finite:
        assert set(there) == last
        assert best_first(there, better) == []
    else:
        best = (max if better == "higher" else min)(finite)
        assert best_first(there, better)[0] == Path(str(qualities.index(best))), "the earlier of equal ones"
        assert set(there) == last | {best_first(there, better)[0]}


@given(QUALITIES)
def test_the_newest_is_the_one_saved_last_even_where_it_has_fewer_attempts(qualities):
    there = saved(qualities)
    assert newest_first(dict(reversed(there.items()))) == list(reversed(there))


@given(st.none() | st.floats(), st.dictionaries(st.text(), st.integers(0), max_size=3), st.none() | st.integers(0))
def test_a_description_survives_its_json_with_no_field_at_its_default(quality, skipped, tokens):
    counts = Counts(attempts=9, completed=8, skipped_by_reason=skipped, tokens_seen=tokens, ticks=3)
    description = Description(serial=7, counts=counts, quality=quality, policy="fp16", torch="2.14", truestep="0.1")
    again = Description.from_dict(description.as_dict())
    assert repr(again) == repr(description)  # NaN is equal to nothing
