"""Runs in processes of their own, by processes that are none: what a signal leaves, and when a process is beyond its time."""

import os
import signal
import time

import pytest

from truestep.compare import crew
from truestep.compare.folder import Folder
from truestep.compare.kept import read_records
from truestep.compare.process import Ended
from truestep.compare.race import race


def ended(**changes):
    """A process that has sent its record and ended by itself."""
    fields = {
        "report": None,
        "code": 0,
        "timed_out": False,
        "last": None,
        "evaluations": (),
        "startup_seconds": 1.0,
        "warmup_seconds": 1.0,
        "run_seconds": 1.0,
        "silent_seconds": 0.0,
        "wall_seconds": 3.0,
        "peak_memory_bytes": None,
        "killed_for_memory": False,
    }
    return Ended(**fields | changes)


class Played:
    """Stands in for a process, and takes no time: what it has reported is there at once."""

    def __init__(self, record, **changes):
        self.report = None if record is None else {"kind": "record", "record": record}
        self.silent = self.is_over = record is not None
        self.begun = self.heard_at = time.monotonic()
        self.moments = {}
        self.signals = []
        vars(self).update(changes)

    def signal(self, number):
        self.signals.append(number)
        self.silent = self.is_over = True

    def ended(self, *, timed_out):
        return ended(report=self.report, timed_out=timed_out)


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
