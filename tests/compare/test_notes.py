"""What a table says of its own intervals: what they cover where runs fail, and where one leaves what is possible."""

import pytest

from truestep.compare import summarize
from truestep.stats.coverage import shortfalls


def said(summary, kind):
    return [note.text for note in summary.notes if note.kind == kind]


def test_intervals_that_cover_less_than_they_claim_are_named_with_what_they_cover(declare, raced):
    protocol = declare(seeds=(1, 2, 3, 4, 5))
    base = [10, 11, 12, 13, 14]
    (text,) = said(summarize(protocol, raced(protocol, fp32=base, fp16=[9, 10, 11, None, None])), "coverage")
    rare, seen = dict(shortfalls(runs=5, failing=0.1)), dict(shortfalls(runs=5, failing=0.4))
    assert f"at 5 runs, if one in ten fails, that of the restricted mean in {rare['restricted mean']:.0%}" in text
    assert f"if 2 in 5 fail, as of fp16, that of the restricted mean in {seen['restricted mean']:.0%}" in text
    assert rare["restricted mean"] < 0.7


@pytest.mark.parametrize("runs", [0, 1])
def test_without_an_interval_nothing_is_said_of_coverage(declare, raced, runs):
    protocol = declare(seeds=(3,))
    assert said(summarize(protocol, raced(protocol, fp32=[10][:runs], fp16=[9][:runs])), "coverage") == []


def test_an_interval_of_times_that_begins_below_zero_is_explained_and_only_such_a_one(declare, raced):
    protocol = declare(seeds=(3, 5))
    apart = summarize(protocol, raced(protocol, fp32=[10, 10.1], fp16=[1, 9]))
    (text,) = said(apart, "below zero")
    assert "Student's" in text
    assert "at 2 runs it begins below 0 for fp16, where" in text
    assert said(summarize(protocol, raced(protocol, fp32=[10, 10.1], fp16=[9, 9.1])), "below zero") == []
