"""Runs in processes of their own, by processes that are none: what a signal leaves, and when a process is beyond its time."""

import errno
import os
import queue
import signal
import time

import pytest

from truestep import errors
from truestep.compare import crew, process
from truestep.compare.code import digest_of
from truestep.compare.death import AGAIN, may_be_made_again
from truestep.compare.folder import Folder
from truestep.compare.kept import read_records
from truestep.compare.order import Slot
from truestep.compare.process import Ended
from truestep.compare.race import race


def ended(**changes):
    """How a process ended that had nothing to say."""
    fields = {
        "report": None,
        "code": 0,
        "limit_seconds": None,
        "last": None,
        "evaluations": (),
        "startup_seconds": 1.0,
        "warmup_seconds": 1.0,
        "run_seconds": 1.0,
        "silent_seconds": 0.0,
        "wall_seconds": 3.0,
        "peak_memory_bytes": None,
        "peak_device_bytes": None,
        "killed_for_memory": False,
    }
    return Ended(**fields | changes)


class Played:
    """Stands in for a process, and takes no time: what it has reported is there at once."""

    def __init__(self, record, **changes):
        self.report = None if record is None else {"kind": "record", "record": record}
        self.silent = self.is_over = record is not None
        self.begun = self.heard_at = self.over_at = time.monotonic()
        self.moments = {}
        self.signals = []
        vars(self).update(changes)

    def signal(self, number):
        self.signals.append(number)
        self.silent = self.is_over = True

    def leaves_nobody(self):
        return True

    def ended(self, *, limit_seconds):
        return ended(report=self.report, limit_seconds=limit_seconds)


@pytest.fixture
def played(declare, ran, tmp_path, monkeypatch):
    """The folder of two candidates on one seed, two at once, whose processes play: fp32's has ended; `other` is fp16's."""

    def build(other):
        protocol = declare(seeds=(3,), initial_weights={"3": "a" * 64}, jobs=2)
        folder = Folder.opened(tmp_path / "out", protocol, resume=False)
        processes = {
            "fp32": Played(ran(protocol, "fp32", 3, ledger=None)),
            "fp16": other(ran(protocol, "fp16", 3, ledger=None)),
        }
        monkeypatch.setattr(crew, "source_files", lambda task, name: ())
        monkeypatch.setattr(crew, "_started", lambda folder, slot, inbox: processes[slot.candidate])
        return folder, processes

    return build


def interrupting(call):
    """`call`, in whose midst Ctrl-C comes, the first time."""
    times = iter([signal.SIGINT])

    def interrupted(*args, **kwargs):
        for number in times:
            os.kill(os.getpid(), number)
        return call(*args, **kwargs)

    return interrupted


def running(record):
    return Played(None)


@pytest.mark.parametrize(("where", "name"), [(crew, "_record"), (os, "fsync"), (Folder, "put")])
def test_a_signal_while_a_run_is_recorded_waits_until_its_record_is_kept(played, monkeypatch, where, name):
    folder, processes = played(running)
    monkeypatch.setattr(where, name, interrupting(getattr(where, name)))
    with pytest.raises(KeyboardInterrupt):
        race(None, folder)
    assert [record["candidate"] for record in folder.records] == ["fp32"]
    assert folder.records == read_records(folder.path)
    assert processes["fp16"].signals, "the other was under way"


@pytest.mark.parametrize(("where", "name"), [(crew, "_record"), (crew, "_is_done"), (crew, "_listen")])
def test_a_signal_loses_no_run_that_has_sent_its_record(played, monkeypatch, where, name):
    folder, _ = played(Played)
    monkeypatch.setattr(where, name, interrupting(getattr(where, name)))
    with pytest.raises(KeyboardInterrupt):
        race(None, folder)
    assert {record["candidate"] for record in folder.records} == {"fp32", "fp16"}
    assert folder.records == read_records(folder.path)


def test_a_process_that_lingers_after_its_record_is_ended_and_its_run_is_kept(played, monkeypatch):
    folder, processes = played(lambda record: Played(record, is_over=False))
    monkeypatch.setattr(crew, "_LAST_WORDS_SECONDS", 0.05)
    monkeypatch.setattr(crew, "_listen", interrupting(crew._listen))
    with pytest.raises(KeyboardInterrupt):
        race(None, folder)
    assert [record["candidate"] for record in read_records(folder.path)] == ["fp32", "fp16"]
    assert processes["fp16"].signals[0] == signal.SIGTERM


def berth(**changes):
    return crew._Berth(slot=Slot(candidate="fp32", seed=3, position=1), process=Played(None, **changes))


@pytest.mark.parametrize(("spent_before", "again"), [(None, True), (0.5, True), (1.5, False)])
def test_a_dead_run_is_told_to_be_run_again_only_while_all_its_tries_have_left_something_of_the_budget(
    declare, ran, tmp_path, spent_before, again
):
    protocol = declare(budget_seconds=2.0)
    folder = Folder.opened(tmp_path, protocol, resume=False)
    if spent_before is not None:
        folder.append(ran(protocol, "fp32", 3, status="crashed", to_target=None, total_seconds=spent_before))
    one = berth()
    folder.log(one.slot).parent.mkdir()
    folder.log(one.slot).touch()
    record = crew._record(folder, one)  # of a process that ran for a second
    assert record["hint"].endswith(AGAIN) is again
    assert may_be_made_again(record, budget_seconds=2.0) is again


@pytest.mark.parametrize(
    ("moments", "limit_seconds"), [({}, 60.0), ({"ready": 0.0}, 60.0), ({"ready": 0.0, "begun": 50.0}, 10.0)]
)
def test_a_run_has_its_limit_and_before_it_startup_and_warm_up_have_one_of_their_own(
    declare, monkeypatch, moments, limit_seconds
):
    protocol = declare(timeout_seconds=10.0, startup_timeout_seconds=60.0)
    begins = moments.get("begun", 0.0)
    one = berth(begun=0.0, moments=moments)
    monkeypatch.setattr(crew.time, "monotonic", lambda: begins + limit_seconds)
    assert not crew._is_done(one, protocol)
    assert one.limit_seconds is None
    assert one.process.signals == []
    monkeypatch.setattr(crew.time, "monotonic", lambda: begins + limit_seconds + 0.1)
    assert crew._is_done(one, protocol)
    assert one.limit_seconds == limit_seconds
    assert one.process.signals


def test_without_a_limit_a_process_goes_on(declare, monkeypatch):
    protocol = declare(timeout_seconds=None, startup_timeout_seconds=None)
    monkeypatch.setattr(crew.time, "monotonic", lambda: 1e6)
    assert not crew._is_done(berth(begun=0.0, moments={}), protocol)
    assert not crew._is_done(berth(begun=0.0, moments={"begun": 1.0}), protocol)


def test_a_process_that_has_sent_its_record_has_ten_seconds_to_end_and_no_other_limit(declare, monkeypatch):
    protocol = declare(timeout_seconds=5.0, startup_timeout_seconds=60.0)
    one = berth(begun=0.0, moments={"begun": 1.0}, report={"kind": "record"}, heard_at=100.0)
    monkeypatch.setattr(crew.time, "monotonic", lambda: 110.0)
    assert not crew._is_done(one, protocol)
    monkeypatch.setattr(crew.time, "monotonic", lambda: 110.1)
    assert crew._is_done(one, protocol)
    assert one.limit_seconds is None
    assert one.process.signals


def test_the_last_words_of_a_process_that_is_over_are_waited_for_a_second(declare, monkeypatch):
    one = berth(is_over=True, over_at=100.0)
    monkeypatch.setattr(crew.time, "monotonic", lambda: 101.0)
    assert not crew._is_done(one, declare())
    monkeypatch.setattr(crew.time, "monotonic", lambda: 101.1)
    assert crew._is_done(one, declare())


def test_no_run_is_done_while_a_child_of_its_process_is_left(declare):
    one = berth(is_over=True, silent=True)
    one.process.leaves_nobody = lambda: False
    assert not crew._is_done(one, declare())
    one.process.leaves_nobody = lambda: True
    assert crew._is_done(one, declare())


def test_code_that_has_changed_since_the_comparison_began_is_run_no_more(tmp_path):
    file = tmp_path / "task.py"
    file.write_text("x = 1\n")
    code = digest_of([file])
    crew._demand_code([file], code)
    file.write_text("x = 2\n")
    with pytest.raises(errors.RunError, match="code has changed") as caught:
        crew._demand_code([file], code)
    assert (caught.value.declared, caught.value.found) == (code, digest_of([file]))
    file.unlink()
    with pytest.raises(errors.RunError, match="code has changed") as caught:
        crew._demand_code([file], code)
    assert "No such file" in caught.value.found


def test_where_the_system_gives_no_process_what_is_kept_is_said_and_how_to_go_on(declare, ran, tmp_path, monkeypatch):
    protocol = declare()
    folder = Folder.opened(tmp_path, protocol, resume=False)
    folder.append(ran(protocol, "fp16", 3))

    def refused(*args, **kwargs):
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(process.subprocess, "Popen", refused)
    with pytest.raises(errors.RunError, match="fp32, seed 3: no process could be begun: Resource temporarily") as caught:
        crew._started(folder, Slot(candidate="fp32", seed=3, position=1), queue.SimpleQueue())
    assert caught.value.hint.startswith("1 finished run kept; the same command with --resume")
