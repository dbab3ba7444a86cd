"""The terminal's words: every absence has one, and no number stands for it."""

import pytest

from truestep.compare import summarize
from truestep.compare.table import AGAINST, TO_TARGET, against_row, on_the_way, to_target_row
from truestep.compare.words import ratio_text

BASE = [10.0, 12.0, 11.0, 15.0, 13.0, 14.0]


def cells(names, row):
    assert len(names) == len(row)
    return dict(zip(names, row, strict=True))


@pytest.fixture
def table(declare, raced):
    """{candidate: (cells to the target, cells on the way, cells against the baseline or None)}."""

    def build(changes=None, *, protocol=None, **times):
        protocol = protocol or declare()
        rows = summarize(protocol, raced(protocol, changes, **times)).rows
        columns, lines = on_the_way([row.standing for row in rows])
        return {
            row.standing.candidate: (
                cells(TO_TARGET, to_target_row(row.standing)),
                cells(columns, line),
                None if row.against is None else against_row(row),
            )
            for row, line in zip(rows, lines, strict=True)
        }

    return build


def test_a_candidate_that_reached(table):
    to_target, on_the_way, against = table(fp32=BASE, fp16=[t / 2 for t in BASE])["fp16"]
    assert to_target == {
        "candidate": "fp16",
        "reached": "6/6",
        "rate, 95 %": "54\u00a0% to 100\u00a0%",
        "restricted mean, 95 %": "6.25 s (5.27 to 7.23)",
        "ERT": "6.25 s",
        "median": "6.25 s",
        "updates": "62.5",
    }
    assert on_the_way["skipped"] == "30 (7.41\u00a0%)"
    assert on_the_way["examples/s applied"] == "640"
    assert on_the_way["quality on test, 95 %"] == "0.9 (0.9)"
    assert against[1:3] == ["2.00x (2.00)", "0.0312"]


def test_failures_are_named_and_what_was_not_reached_says_so(table):
    to_target, on_the_way, against = table(fp32=BASE, fp16=[None] * 6)["fp16"]
    assert to_target["reached"] == "0/6, 6 diverged"
    assert to_target["restricted mean, 95 %"] == "20 s (all at the budget)"
    assert (to_target["ERT"], to_target["median"], to_target["updates"]) == ("not reached",) * 3
    assert on_the_way["quality on test, 95 %"] == "not measured"
    assert against[1].startswith("at most 0.6")


def test_where_neither_side_reached_no_ratio_is_shown(table):
    _, _, against = table(fp32=[None] * 6, fp16=[None] * 6)["fp16"]
    assert (against[1], against[3], against[4]) == ("neither reached",) * 3


def test_a_ratio_of_runs_cut_on_both_sides_says_so_behind_its_number(table):
    _, _, against = table(fp32=[10.0, None, *BASE[:4]], fp16=[9.0, 8.0, None, *BASE[:3]])["fp16"]
    assert against[1].split(" of times cut at the budget ")[0].endswith("x")
    assert against[3].endswith("x of times cut at the budget")


def test_one_run_has_no_interval(table, declare):
    to_target, on_the_way, _ = table(protocol=declare(seeds=(3,)), fp32=[10.0], fp16=[9.0])["fp32"]
    assert to_target["restricted mean, 95 %"] == "10 s (one run)"
    assert on_the_way["quality on test, 95 %"] == "0.9"


def test_a_candidate_that_has_not_run(table):
    to_target, on_the_way, against = table(fp32=BASE)["fp16"]
    assert list(to_target.values())[1:] == ["not run", "not run", "not measured", *["not reached"] * 3]
    assert on_the_way["skipped"] == "no attempt"
    assert on_the_way["examples/s applied"] == "not measured"
    assert set(against[1:]) == {"not measured"}


def test_an_emulated_candidate_is_labelled(table):
    rows = table({"fp16": {"emulated": True}}, fp32=BASE, fp16=BASE)["fp16"]
    assert rows[0]["candidate"] == rows[1]["candidate"] == rows[2][0] == "fp16 (emulated)"
    assert rows[2][2] == "withheld"


DEVICE_MEMORY = "peak memory on the device"


def test_memory_on_the_device_has_a_column_where_a_run_has_told_it(table, declare, ran):
    process = {"startup_seconds": 2.5, "earlier": [], "peak_memory_bytes": 2**29}
    told = table({"fp16": {"process": process | {"peak_device_bytes": 3 * 2**29}}}, fp32=BASE, fp16=BASE)
    assert [told[name][1][DEVICE_MEMORY] for name in ("fp32", "fp16")] == ["not measured", "1.50\u00a0GiB"]
    untold = table({"fp16": {"process": process | {"peak_device_bytes": None}}}, fp32=BASE, fp16=BASE)
    assert DEVICE_MEMORY not in untold["fp16"][1]


def test_the_baseline_comes_first(table):
    assert list(table(fp32=BASE, fp16=BASE)) == ["fp32", "fp16"]


def test_columns_are_never_more_than_their_cells():
    assert len(AGAINST) == 6
    assert ratio_text(None) == "not measured"
