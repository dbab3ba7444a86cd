"""Numbers in words: one rounding for all, and nothing shown that is no number."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from truestep.compare.against import Ratio
from truestep.compare.words import ratio_text
from truestep.pages.words import NEITHER, TIMES, counted, ratio_words, significant
from truestep.stats import Bound, Interval

positive = st.floats(1e-9, 1e9)


@given(positive, st.integers(2, 6))
def test_a_number_has_the_digits_that_were_asked_for_and_is_the_nearest_with_them(value: float, digits: int) -> None:
    words = significant(value, digits)
    whole = words.partition("e")[0].replace(",", "").lstrip("0.")
    if value < 10.0 ** (digits - 1):
        assert len(whole.replace(".", "")) == digits
        assert float(words.replace(",", "")) == float(f"{value:.{digits - 1}e}")
    else:  # a whole number is shown whole
        assert "." not in words
        assert int(words.replace(",", "")) == round(value)


@given(positive, st.none() | st.sampled_from(list(Bound)), st.none() | st.tuples(positive, positive))
def test_a_ratio_reads_alike_in_the_terminal_and_on_the_page(
    speedup: float, bound: Bound | None, ends: tuple[float, float] | None
) -> None:
    interval = None if ends is None else Interval(low=ends[0], high=ends[1], confidence=0.95)
    ratio = Ratio(speedup=speedup, interval=interval, bound=bound, p=1.0, p_adjusted=None, seeds=())
    words = ratio_words(speedup, bound=bound and bound.value, interval=ends)
    assert ratio_text(ratio) == words.replace(TIMES, "x")
    assert (words == NEITHER) == (bound is Bound.UNDIRECTED and ends is None)


@given(st.integers(0, 10**6))
def test_one_is_told_as_one(number: int) -> None:
    assert re.fullmatch(r"1 run" if number == 1 else r"[\d,]+ runs", counted(number, "run"))
