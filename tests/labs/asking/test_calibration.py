"""The table by confidence counts what was graded, its interval is Wilson's, and its words tell where the two part."""

import math
from datetime import UTC, datetime

import pytest

from truestep.labs.asking.calibration import Level, levels, partings
from truestep.labs.asking.progress import Answered


def answers(confidence, rights):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        Answered(name="a/1", time=now, right=right, points=int(bool(right)), total=1, confidence=confidence, answer=None)
        for right in rights
    ]


def test_each_confidence_has_its_count_and_what_learners_grade_has_none():
    found = levels([*answers(5, [True, False, True]), *answers(1, [None, False])])
    assert [(each.confidence, each.asked, each.right) for each in found] == [
        (1, 1, 0),
        (2, 0, 0),
        (3, 0, 0),
        (4, 0, 0),
        (5, 3, 2),
    ]
    assert (found[1].share, found[1].interval()) == (None, None)


@pytest.mark.parametrize(("right", "asked"), [(0, 3), (2, 6), (5, 5), (40, 50)])
def test_the_interval_is_wilsons(right, asked):
    z, share = 1.959963984540054, right / asked
    middle = (share + z * z / (2 * asked)) / (1 + z * z / asked)
    half = z / (1 + z * z / asked) * math.sqrt(share * (1 - share) / asked + z * z / (4 * asked**2))
    interval = Level(confidence=3, asked=asked, right=right).interval()
    assert (interval.low, interval.high) == pytest.approx((max(0, middle - half), min(1, middle + half)), abs=1e-12)


@pytest.mark.parametrize(
    ("confidence", "asked", "right", "words"),
    [
        (5, 6, 2, "of 6 answers given with confidence 5, 2 were right: surer than right"),
        (4, 3, 1, "of 3 answers given with confidence 4, 1 was right: surer than right"),
        (1, 4, 4, "of 4 answers given with confidence 1, 4 were right: you know more than you trust"),
        (5, 4, 4, "go together"),
        (1, 4, 0, "go together"),
        (3, 4, 0, "go together"),
        (5, 2, 0, "too few answers"),
    ],
)
def test_words_tell_where_they_part(confidence, asked, right, words):
    (told,) = partings([Level(confidence=confidence, asked=asked, right=right)])
    assert words in told
