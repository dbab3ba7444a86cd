"""What a process writes, when, and how it leaves."""

import os
import sys
from itertools import pairwise

import pytest

from truestep.audit.events import OptimizerMade, PenaltyInScaledUnits
from truestep.audit.process import witness
from truestep.audit.process.account import Request, load
from truestep.audit.process.witness import SHARE, Witness
from truestep.audit.story import Totals
from truestep.audit.trace.settings import Settings

MADE = OptimizerMade(order=1, site=None, optimizer=0, kind="SGD", fused=False, parameters=2, lr=0.1, eps=None, momentum=None)
OTHER = PenaltyInScaledUnits(order=2, site=None, scale=2.0, operation="pow")


class Recorder:
    def __init__(self):
        self.events = [MADE, OTHER]
        self.when_closed = []

    def totals(self):
        return Totals(backwards=3)

    def coverage(self):
        return {"not_judged": []}

    def close(self):
        for call in self.when_closed:
            call()


class Watching:
    def __init__(self):
        self.recorder = Recorder()
        self.heard = []

    def raised(self, error):
        self.heard.append(error)


@pytest.fixture
def watched(monkeypatch, tmp_path):
    """A witness of this process with nothing to see but what a test says, and the recorder it listens to."""
    watching = Watching()
    monkeypatch.setattr(witness, "start", lambda settings: watching)
    monkeypatch.delenv("RANK", raising=False)

    def make(began_seconds=0.0):
        return Witness(Request(folder=str(tmp_path), settings=Settings()), began_seconds), watching

    return make


def accounts(folder):
    return [load(path) for path in folder.glob("*.json")]


class Clock:
    """Stands still but for what it is told."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds

    def time_ns(self):
        return 1


@pytest.mark.parametrize("cost", [0.001, 0.1, 1.0])
def test_writing_takes_its_share_of_a_run_and_no_more_but_is_never_given_up(watched, monkeypatch, cost):
    clock, written = Clock(), []

    def write(account, path):
        clock.seconds += cost
        written.append(clock.seconds)

    monkeypatch.setattr(witness, "time", clock)
    monkeypatch.setattr(witness, "write", write)
    _, watching = watched()
    clock.seconds = 3.0
    for _ in range(10_000):
        clock.seconds += 0.1
        watching.recorder.close()
    assert len(written) * cost <= SHARE * clock.seconds + cost
    assert len(written) >= 10
    assert max(after - before for before, after in pairwise(written)) < 2.2 * cost / SHARE + 0.2


def test_the_last_word_says_that_it_is_and_replaces_what_was_said_before(watched, tmp_path):
    it, watching = watched()
    watching.recorder.close()
    (early,) = accounts(tmp_path)
    assert not early.ended
    it.leave()
    (late,) = accounts(tmp_path)
    assert late.ended
    assert late.events == (MADE, OTHER)
    assert late.process == os.getpid()
    assert late.arguments == tuple(sys.argv[1:])
    assert late.rank is None


def test_a_rank_that_only_the_environment_knows_is_told(watched, tmp_path, monkeypatch):
    it, _ = watched()
    monkeypatch.setenv("RANK", "3")
    it, _ = watched()
    it.leave()
    assert [account.rank for account in accounts(tmp_path)] == [3]


def test_a_process_without_an_optimizer_says_nothing(watched, tmp_path):
    it, watching = watched()
    watching.recorder.events = [OTHER]
    watching.recorder.close()
    it.leave()
    assert list(tmp_path.iterdir()) == []


def test_a_forked_process_says_nothing(watched, tmp_path, monkeypatch):
    it, _ = watched()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    it.leave()
    it.leaving(lambda status: None, at_once=True)(1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "status", "heard"),
    [
        (ValueError("hot"), (1,), True),
        (ValueError("hot"), ("too hot",), True),
        (ValueError("hot"), (), False),
        (ValueError("hot"), (0,), False),
        (KeyboardInterrupt(), (1,), False),
        (None, (1,), False),
    ],
)
def test_an_exit_with_a_code_out_of_an_exception_is_that_exceptions(watched, tmp_path, error, status, heard):
    it, watching = watched()
    asked = []
    leave = it.leaving(lambda *status: asked.append(status), at_once=False)
    try:
        if error is not None:
            raise error
        leave(*status)
    except BaseException:
        leave(*status)
    assert asked == [status]
    assert watching.heard == [error] * heard
    it.leave()
    (account,) = accounts(tmp_path)
    assert ("ValueError: hot" in (account.traceback or "")) is heard


def test_a_process_that_is_ended_at_once_has_its_say_before(watched, tmp_path):
    it, _ = watched()
    seen = []
    it.leaving(lambda status: seen.extend(accounts(tmp_path)), at_once=True)(4)
    assert [account.ended for account in seen] == [True]


def test_what_fails_in_the_audit_is_told_to_the_audit_alone(watched, tmp_path):
    it, watching = watched()
    watching.recorder.events = [MADE, object()]
    it.leave()
    (failed,) = tmp_path.iterdir()
    assert failed.name == f"{os.getpid()}.failed"
    assert "TypeError" in failed.read_text()


def test_a_signal_that_comes_while_it_writes_does_not_write_into_it(watched, tmp_path, monkeypatch):
    it, _ = watched()
    written = []

    def write(account, path):
        written.append(account)
        it.leave()

    monkeypatch.setattr(witness, "write", write)
    it.leave()
    assert len(written) == 1
