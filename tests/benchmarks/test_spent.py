"""A profile beside another names what takes more in it."""

from __future__ import annotations

import pytest

from benchmarks.spent import MOST, profiled, rows_of, table_of

BY_HAND = {("~", 0, "<kernel>"): (10, 10, 1.0, 1.0, {}), ("/a/clip.py", 5, "clip"): (10, 10, 0.5, 0.5, {})}
OURS = {("~", 0, "<kernel>"): (10, 10, 1.2, 1.2, {}), ("/a/work.py", 7, "add"): (40, 40, 0.4, 0.4, {})}


def test_rows_are_what_ours_take_above_the_other_for_one_update() -> None:
    rows = rows_of(OURS, BY_HAND, 10)
    assert [row.function for row in rows] == ["work.py:7 add", "<kernel>", "clip.py:5 clip"]
    assert [row.above_us for row in rows] == pytest.approx([40_000.0, 20_000.0, -50_000.0])
    assert [(row.calls, row.calls_by_hand) for row in rows] == [(4.0, 0.0), (1.0, 1.0), (0.0, 1.0)]


def test_the_table_ends_with_the_sum_of_all() -> None:
    table = table_of(rows_of(OURS, BY_HAND, 10))
    assert table.rows[-1][:2] == ("all", "+10000.0")
    many = {("~", k, str(k)): (1, 1, float(k), 0.0, {}) for k in range(MOST + 5)}
    assert len(table_of(rows_of(many, {}, 1)).rows) == MOST + 1


def test_a_function_that_runs_is_in_its_profile() -> None:
    def worked() -> int:
        return sum(range(1000))

    assert any(name == "worked" for _, _, name in profiled(worked))
