"""A process without torch in it: when it ended, and what is left of it and its children."""

import os
import time

import pytest

from tests.compare.test_processes import until
from truestep.compare import process as room
from truestep.compare.process import Process, _rose, end

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="the system has no groups of processes")

STUBBORN = """
import json, os, signal, sys, time
reports = os.fdopen(os.dup(1), "wb", buffering=0)
ready, steady = os.pipe()
if not os.fork():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(steady, b".")
    time.sleep(300)
os.read(ready, 1)
reports.write(json.dumps({"kind": "ready"}).encode() + b"\\n")
os._exit(7)
"""


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A process of this program: started(program), and what it reports by and by, which is to be taken in."""
    begun = []

    def build(program):
        heard = []
        monkeypatch.setattr(room, "BOOT", program)
        begun.append(Process.started(None, tmp_path / "log.txt", lambda *report: heard.append(report)))
        return begun[0], heard

    yield build
    end(begun)
    for process in begun:
        process.ended(limit_seconds=None)  # its streams are closed


def test_a_child_that_hears_no_sigterm_is_killed_after_its_grace_and_not_before(started, monkeypatch):
    process, _ = started(STUBBORN)
    until(lambda: process.is_over)
    monkeypatch.setattr(room, "_GRACE_SECONDS", 3600.0)
    assert not process.leaves_nobody()
    os.killpg(process._popen.pid, 0)
    monkeypatch.setattr(room, "_GRACE_SECONDS", 0.0)
    assert process.leaves_nobody()
    until(lambda: nobody(process), seconds=30)


def nobody(process):
    """Whether no member of a group lives; one that nobody has taken notice of yet is dead."""
    group = str(process._popen.pid)
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/stat") as file:
                state, _, of = file.read().rpartition(")")[2].split()[:3]
        except OSError:  # it has ended just now
            continue
        if of == group and state != "Z":
            return False
    return True


def test_a_process_without_children_leaves_nobody_at_once(started):
    process, _ = started("import os; os._exit(3)")
    until(lambda: process.is_over)
    until(process.leaves_nobody)
    assert process.ended(limit_seconds=None).code == 3


def test_the_seconds_of_a_process_end_with_it_however_late_that_is_noticed(started):
    process, heard = started("import os; os._exit(3)")
    until(lambda: heard and process.is_over)
    process.heard(*heard[0][1:])
    time.sleep(0.3)
    one = process.ended(limit_seconds=None)
    time.sleep(0.3)
    assert one == process.ended(limit_seconds=None)
    assert one.wall_seconds <= process.over_at - process.begun
    assert one.wall_seconds == one.startup_seconds == one.silent_seconds
    assert one.warmup_seconds is one.run_seconds is None


CUT = b'{"kind": "ready"}\n{"kind": "rec'


def test_a_report_that_was_cut_off_as_the_process_died_is_none(started):
    process, heard = started(f"import os; os.write(1, {CUT!r}); os._exit(3)")
    until(lambda: len(heard) == 3 and process.is_over)
    assert [process.heard(when, line) for _, when, line in heard] == [{"kind": "ready"}, None, None]
    assert (process.report, process.silent, process.heard_at) == (None, True, heard[0][1])


def test_where_the_machine_does_not_count_what_it_killed_for_memory_nothing_is_said_of_it():
    assert _rose(4, 5)
    assert not any((_rose(5, 5), _rose(None, 5), _rose(5, None), _rose(None, None)))
