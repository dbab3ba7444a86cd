"""What a process had to tell is read back whole, or it is said why not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from truestep.audit.events import PenaltyInScaledUnits
from truestep.audit.process import gathering
from truestep.audit.process.account import SCHEMA, Account, excuse, load, write
from truestep.audit.process.gathering import gather
from truestep.audit.story import Totals
from truestep.errors import RecordError


def account(process=7, *, began_ns=5, ended=True):
    return Account(
        process=process,
        began_ns=began_ns,
        rank=1,
        arguments=("--lr", "0.1"),
        ended=ended,
        events=(PenaltyInScaledUnits(order=1, site=None, scale=2.0, operation="pow"),),
        totals=Totals(backwards=3, attempts={0: 2}, completed={0: 1}, windows_left_out=4),
        coverage={"not_judged": [{"what": "it", "why": "so"}]},
        traceback="Traceback",
    )


def test_an_account_is_read_back_as_it_was(tmp_path):
    write(account(), tmp_path / "a.json")
    assert load(tmp_path / "a.json") == account()
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert json.loads((tmp_path / "a.json").read_text())["schema"] == SCHEMA


@pytest.mark.parametrize("text", ["", "{", "{}", "[]"])
def test_what_is_no_account_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(RecordError):
        load(tmp_path / "a.json")


def test_another_schema_is_refused(tmp_path):
    write(account(), tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text()
    (tmp_path / "a.json").write_text(text.replace(f'"schema": {SCHEMA}', '"schema": 99'))
    with pytest.raises(RecordError, match="has schema 99"):
        load(tmp_path / "a.json")


def test_accounts_come_in_the_order_in_which_their_processes_began(tmp_path):
    for name, began_ns in (("a", 3), ("b", 1), ("c", 2)):
        write(account(began_ns=began_ns), tmp_path / f"{name}.json")
    assert [each.began_ns for each in gather(tmp_path).accounts] == [1, 2, 3]
    assert gather(tmp_path).missing == ()


def test_what_could_not_be_had_is_said(tmp_path):
    (tmp_path / "8-1.json").write_text("{}")
    excuse(ValueError("too hot"), tmp_path)
    unread, failed = gather(tmp_path).missing
    assert unread["what"] == "process 8"
    assert "Account has no field" in unread["why"]
    assert failed == {"what": f"process {os.getpid()}", "why": "the audit failed in it: ValueError: too hot"}


def test_an_excuse_without_a_folder_is_nobodys(tmp_path):
    excuse(ValueError("too hot"), tmp_path / "gone")
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_comes_to_its_end_is_waited_for(tmp_path, monkeypatch):
    write(account(os.getpid(), ended=False), tmp_path / "a.json")
    monkeypatch.setattr(gathering.time, "sleep", lambda seconds: write(account(os.getpid()), tmp_path / "a.json"))
    assert [each.ended for each in gather(tmp_path).accounts] == [True]
    assert gather(tmp_path).missing == ()


def test_one_that_does_not_is_told_as_running(tmp_path, monkeypatch):
    monkeypatch.setattr(gathering, "PATIENCE_SECONDS", 0.0)
    write(account(os.getpid(), ended=False), tmp_path / "a.json")
    assert gather(tmp_path).missing == ({"what": f"the end of process {os.getpid()}", "why": "it was still running"},)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="how a dead process looks is read off /proc")
@pytest.mark.parametrize("asked_for", [True, False])
def test_one_that_is_dead_is_not_waited_for(tmp_path, monkeypatch, asked_for):
    dead = subprocess.Popen([sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    write(account(dead.pid, ended=False), tmp_path / "a.json")
    dead.stdin.close()
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still there
    if asked_for:
        dead.wait()
    monkeypatch.setattr(gathering.time, "sleep", lambda seconds: pytest.fail("waited for the dead"))
    (missing,) = gather(tmp_path).missing
    assert missing["why"].startswith("it was killed")
    dead.wait()
