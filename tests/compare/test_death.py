"""The record of a run whose process died: what is charged, and in which words it is told."""

import signal

import pytest

from truestep.compare.death import AGAIN, _signal, died, where, with_process
from truestep.compare.order import Slot
from truestep.compare.process import Ended
from truestep.engine.counts import Counts

PLACE = {"ledger": None, "device": "cpu", "emulated": False, "environment": {}, "protocol_hash": "0" * 64}
CLOCKS = {"init": 1.0, "train": 2.0, "eval": 0.5, "checkpoint": 0.0, "waste": 0.0}
REACHED = {"seconds": 2.0, "attempts": 9, "completed": 9, "examples": 576, "tokens": None}
LAST = {"clocks": CLOCKS, "to_target": None}


FIELDS = {
    "report": None,
    "code": 7,
    "limit_seconds": None,
    "last": None,
    "evaluations": (),
    "startup_seconds": 4.0,
    "warmup_seconds": 3.0,
    "run_seconds": 6.0,
    "silent_seconds": 2.5,
    "wall_seconds": 13.0,
    "peak_memory_bytes": None,
    "peak_device_bytes": None,
    "killed_for_memory": False,
}
"""Of a process that crashed in its run, 6 seconds from its warm-up on."""


def record(*, attempts=0, at=None, words="", budget_seconds=None, **changes):
    """The record of such a process, with these fields changed."""
    return died(
        Ended(**FIELDS | changes),
        Slot(candidate="fp16", seed=3, position=1),
        counts=Counts(attempts=attempts, completed=attempts),
        where=at,
        words=words,
        log="logs/a.txt",
        budget_seconds=budget_seconds,
        place=PLACE,
    )


NEVER = {"warmup_seconds": None, "run_seconds": None}
WARM = {"run_seconds": None}


@pytest.mark.parametrize(
    ("changes", "status", "detail"),
    [
        (NEVER, "crashed", "the process ended itself with exit code 7 as it started, and left no record"),
        (WARM, "crashed", "the process ended itself with exit code 7 in its warm-up, and left no record"),
        (
            {"run_seconds": 0.0},
            "crashed",
            "the process ended itself with exit code 7 before its first attempt had ended, and left",
        ),
        (
            {"attempts": 1, "last": LAST},
            "crashed",
            "the process ended itself with exit code 7 after 1 attempt, and left no record",
        ),
        ({"words": "x" * 500}, "crashed", f"and left no record; its last words: {'x' * 200}"),
        ({"peak_memory_bytes": 3 * 2**30}, "crashed", "; it had held 3,072 MiB"),
        ({"code": -11, "at": "task.py, line 3 (loss)"}, "crashed", "had ended, in task.py, line 3 (loss)"),
        (
            {"code": -9},
            "crashed",
            "SIGKILL (Killed) before its first attempt had ended; so ends what a system kills for want of memory",
        ),
        ({"code": -9, "killed_for_memory": True}, "out of memory", "; the system has killed a process for want of memory"),
        (
            {"limit_seconds": 9.0, "attempts": 2},
            "timed out",
            "ended after 9 s, the limit, after 2 attempts; nothing was heard of it",
        ),
        (
            {"limit_seconds": 60.0} | WARM,
            "timed out",
            "ended after 60 s, the limit of startup and warm-up, in its warm-up; nothing",
        ),
        (
            {"limit_seconds": 60.0} | NEVER,
            "timed out",
            "ended after 60 s, the limit of startup and warm-up, as it started; nothing",
        ),
    ],
)
def test_a_death_is_told_by_what_ended_it_and_when(changes, status, detail):
    found = record(**changes)
    assert found["status"] == status
    assert detail in found["detail"]
    assert found["hint"] == "its output is in logs/a.txt; --resume --rerun-failed runs it again, its seconds counting as waste"


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({"budget_seconds": 6.5}, True),
        ({"budget_seconds": 6.0}, False),
        ({"last": LAST | {"to_target": REACHED}}, False),
    ],
)
def test_a_hint_names_a_way_to_run_it_again_only_where_that_would_run_it(changes, again):
    assert record(**changes)["hint"] == f"its output is in logs/a.txt{AGAIN if again else ''}"


def test_last_words_are_cut_at_two_hundred_characters():
    assert record(words="x" * 500)["detail"].count("x") == 200 + "exit".count("x")


@pytest.mark.parametrize(
    ("changes", "waste", "total"),
    [
        ({"last": LAST}, 2.5, 6.0),
        ({}, 6.0, 6.0),
        (WARM, 3.0, 3.0),
        (NEVER, 0.0, 0.0),
        ({"run_seconds": 0.0}, 0.0, 0.0),
        ({"last": LAST, "run_seconds": 3.0}, 0.0, 3.5),
    ],
)
def test_what_a_dead_run_spent_after_its_last_report_is_waste_and_of_a_warm_up_all(changes, waste, total):
    found = record(**changes)
    assert (found["clocks"]["waste"], found["total_seconds"]) == (waste, total)


def test_the_memory_of_the_machine_and_of_the_device_are_kept_apart():
    ended = Ended(**FIELDS | {"peak_memory_bytes": 5, "peak_device_bytes": 7})
    found = with_process({}, ended, at_once=1)["process"]
    assert (found["peak_memory_bytes"], found["peak_device_bytes"]) == (5, 7)


def test_a_task_that_could_not_be_loaded_says_so_itself():
    report = {"kind": "failed", "status": "error", "detail": "no such task", "hint": "write one"}
    found = record(report=report, **NEVER)
    assert (found["status"], found["detail"], found["hint"]) == ("error", "no such task", "write one")


@pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="the system has no real-time signals")
def test_a_real_time_signal_has_a_number_and_no_name():
    number = signal.SIGRTMIN + 3
    assert _signal(-number) == f"signal {number}"
    assert f"ended by signal {number} " in record(code=-number)["detail"]


def test_a_stack_that_python_itself_froze_has_no_line_to_tell():
    assert where('Current thread 0x7f (most recent call first):\n  File "<frozen os>", line 5 in fork\n', "/my/task.py") is None
