"""Each aim is judged by the figures alone, and a missed one names its worst."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import audit_beside, gpu_update, peak, tail, update
from benchmarks.gpu import Use
from benchmarks.programs import PROGRAMS, Program
from benchmarks.programs import table_of as printed_table
from benchmarks.rounds import Spread
from benchmarks.table import Aim, most


def spread(median: float, room: float = 0.02) -> Spread:
    return Spread(median=median, low=median - room, high=median + room)


def verdicts(aims: tuple[Aim, ...]) -> list[bool | None]:
    return [aim.met for aim in aims]


LARGE = tail.Row(
    millions=30,
    tensors=10,
    policy="fp16",
    optimizer="AdamW",
    fused=True,
    floor_ms=50.0,
    again=spread(0.0),
    rival=spread(0.8),
    ours=spread(0.3),
    apart=0.0,
)
UNFUSED = replace(LARGE, fused=False, rival=spread(0.4), ours=spread(0.2))


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([LARGE, UNFUSED], [True, True]),
        ([replace(LARGE, ours=spread(0.36)), UNFUSED], [False, True]),
        ([replace(LARGE, millions=1, ours=spread(2.0)), UNFUSED], [None, True]),
        ([LARGE, replace(UNFUSED, ours=spread(0.21))], [True, False]),
        ([LARGE, replace(UNFUSED, policy="bf16", ours=spread(0.4))], [True, None]),
        ([LARGE, replace(UNFUSED, rival=spread(0.01), ours=spread(0.01))], [True, None]),
    ],
)
def test_the_tail_is_judged_where_the_aim_says(rows: list[tail.Row], wanted: list[bool | None]) -> None:
    assert verdicts(tail.aims(rows)) == wanted


def test_rows_that_are_left_out_of_an_aim_are_counted() -> None:
    hidden = replace(UNFUSED, rival=spread(0.01))
    assert "1 of 2 rows left out" in tail.aims([LARGE, UNFUSED, hidden])[1].text


def rows_of(setting: str = "64, 32", **medians: float | None) -> list[update.Row]:
    """Rows whose ratios are `medians`; None stands for a contender that is not installed."""
    rows = []
    for name, median in medians.items():
        told = {} if median is None else {"ms": 1.0, "ratio": spread(median), "beside": spread(median), "apart": 0.0}
        rows.append(update.Row(setting=setting, contender=name.replace("_", " "), absent="no module" * (not told), **told))
    return rows


FAIR = {"hand": 1.0, "hand_again": 1.0, "truestep": 1.01, "Accelerate": 1.3, "Fabric": 1.1, "Trainer": 1.4}


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, [True, True]),
        ({"truestep": 1.03}, [False, True]),
        ({"truestep": 0.9}, [True, True]),
        ({"truestep": 1.0, "hand_again": 0.9}, [True, True]),
        ({"Fabric": 1.0}, [True, False]),
        ({"Trainer": None}, [True, None]),
        ({"Trainer": None, "Fabric": 1.0}, [True, False]),
    ],
)
def test_an_update_is_judged_by_the_spread_of_the_hand_written_loop(
    changed: dict[str, float | None], wanted: list[bool | None]
) -> None:
    rows = rows_of(**(FAIR | changed))
    assert verdicts(update.aims(rows)) == wanted
    assert len(update.table_of(rows).rows) == len(rows)


def test_one_setting_that_misses_an_aim_is_enough() -> None:
    rows = rows_of(**FAIR) + rows_of("2048, 64", **(FAIR | {"truestep": 1.2}))
    assert verdicts(update.aims(rows)) == [False, False]


def test_peaks_before_and_after_the_mark_are_told_apart() -> None:
    assert peak.peaks([100, 50, -50, peak.MARK, -peak.MARK, 20, -20]) == (150, 120)
    assert peak.peaks([-100, 30, peak.MARK, -peak.MARK, 5]) == (0, -65)


@pytest.mark.parametrize(
    ("later", "first", "wanted"), [(101, 101, [True, True]), (102, 100, [False, True]), (90, 125, [True, False])]
)
def test_memory_is_judged_in_first_and_later_updates(later: int, first: int, wanted: list[bool]) -> None:
    rows = [
        peak.Row(width=64, contender="hand", first_bytes=100, later_bytes=100),
        peak.Row(width=64, contender="truestep", first_bytes=first, later_bytes=later),
        peak.Row(width=64, contender="Trainer", absent="no module"),
    ]
    assert verdicts(peak.aims(rows)) == wanted
    assert peak.table_of(rows).rows[2][2] == "not measured: no module"


def used(contender: str, peak_bytes: int, waits: int) -> gpu_update.Used:
    return gpu_update.Used(setting="64", contender=contender, updates=10, use=Use(peak_bytes=peak_bytes, waits=waits))


@pytest.mark.parametrize(
    ("peak_bytes", "waits", "wanted"), [(101, 10, [True, True]), (102, 10, [False, True]), (90, 11, [True, False])]
)
def test_a_device_is_judged_by_memory_and_waits(peak_bytes: int, waits: int, wanted: list[bool]) -> None:
    rows = [used("hand", 100, 0), used("truestep", peak_bytes, waits)]
    assert verdicts(gpu_update.aims(rows)) == wanted
    assert len(gpu_update.used_table(rows).rows) == 2


def beside(name: str, mean: float | None) -> audit_beside.Row:
    return audit_beside.Row(name=name, updates=9, median_ms=mean, mean_ms=mean, around_seconds=1.0)


@pytest.mark.parametrize(("theirs", "wanted"), [(3.0, True), (1.0, False), (None, None)])
def test_an_audit_is_judged_by_the_cheapest_way_beside_it(theirs: float | None, wanted: bool | None) -> None:
    rows = [beside("alone", 1.0), beside("truestep audit", 2.0), beside("TrainCheck, whole", 90.0), beside("TrainCheck", theirs)]
    if theirs is None:
        rows = rows[:2]
    assert verdicts(audit_beside.aims(rows)) == [wanted]


def test_a_program_is_judged_by_its_exit_code_where_it_judges() -> None:
    judging = PROGRAMS["page"]
    assert verdicts(printed_table(judging, (), 0, "figures", "").aims) == [True]
    assert verdicts(printed_table(judging, (), 1, "figures", "").aims) == [False]


@pytest.mark.parametrize(("code", "printed"), [(1, ""), (2, "half"), (-9, "")])
def test_a_program_that_failed_says_so(code: int, printed: str) -> None:
    for program in (PROGRAMS["page"], Program(title="other", file="other.py")):
        table = printed_table(program, ("1",), code, printed, "first\nModuleNotFoundError: no playwright\n")
        assert "Not measured" in table.how
        assert "no playwright" in table.how
        assert not table.aims


def test_an_aim_names_its_worst_and_all_that_miss_it() -> None:
    assert most("x", 1.0, [("a", 0.5), ("b", 0.9)]).found == "worst 0.900 (b)"
    assert most("x", 1.0, [("a", 1.5), ("b", 1.1)]).found == "missed by 2 of 2: a 1.500, b 1.100"
    assert most("x", 1.0, []).met is None
