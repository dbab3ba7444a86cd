"""The race: order by trace, records before the next run, going on after any end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from truestep import errors
from truestep.compare.folder import Folder, read_records
from truestep.compare.race import race

ROOT = Path(__file__).parents[2]


class Ended:
    """What a run returns."""

    def __init__(self, record):
        self.record = record

    def as_dict(self):
        return dict(self.record)


@pytest.fixture
def runner(ran):
    """A stand-in for run.train that leaves a trace; `at` maps the number of a call, from 1, to what it does instead."""

    class Runner:
        def __init__(self, protocol, folder, at=None):
            self.protocol, self.folder, self.at = protocol, folder, at or {}
            self.trace, self.on_disk, self.settings = [], [], []

        def __call__(self, task, settings, *, seed, ledger=None, progress=None, protocol_hash=None):
            warm = protocol_hash is None
            self.trace.append(f"{'warm ' if warm else ''}{settings.candidate}/{seed}")
            self.on_disk.append(len(read_records(self.folder.path)))
            self.settings.append(settings)
            if ledger is not None:
                ledger.write_text("begun\n")
                progress("half-way")
            status = self.at.get(len(self.trace), "reached")
            if isinstance(status, BaseException):
                raise status
            record = ran(self.protocol, settings.candidate, seed, status=status)
            return Ended(record | {"ledger": None if warm else str(ledger), "protocol_hash": protocol_hash})

    return Runner


@pytest.fixture
def opened(declare, tmp_path):
    """The folder of a comparison of three candidates on two seeds."""

    def build(*, resume=False, **changes):
        weights = {"3": "a" * 64, "5": "b" * 64}
        protocol = declare(**{"candidates": ("fp32", "bf16", "fp16"), "seeds": (3, 5), "initial_weights": weights} | changes)
        return Folder.opened(tmp_path / "out", protocol, resume=resume)

    return build


RUNS = ["fp32/3", "bf16/3", "fp16/3", "bf16/5", "fp16/5", "fp32/5"]
WARM = ["warm fp32/6", "warm bf16/6", "warm fp16/6"]


def test_warm_ups_first_then_seed_by_seed_with_rotated_candidates(opened, runner):
    folder = opened()
    train = runner(folder.protocol, folder)
    race(None, folder, train=train)
    assert train.trace == WARM + RUNS


def test_each_record_is_on_disk_before_the_next_run_starts_and_a_warm_up_leaves_none(opened, runner):
    folder = opened()
    train = runner(folder.protocol, folder)
    race(None, folder, train=train)
    assert train.on_disk == [0, 0, 0, 0, 1, 2, 3, 4, 5]
    assert [f"{record['candidate']}/{record['seed']}" for record in read_records(folder.path)] == RUNS
    assert folder.records == read_records(folder.path)


def test_no_warm_up_where_the_protocol_has_none(opened, runner):
    folder = opened(warmup_attempts=0)
    train = runner(folder.protocol, folder)
    race(None, folder, train=train)
    assert train.trace == RUNS


def test_a_record_names_its_ledger_relative_to_the_folder(opened, runner):
    folder = opened()
    race(None, folder, train=runner(folder.protocol, folder))
    assert folder.records[3]["ledger"] == "ledgers/bf16-seed5.jsonl"
    assert (folder.path / folder.records[3]["ledger"]).exists()


def test_runs_that_fail_have_their_record_and_the_race_goes_on(opened, runner):
    folder = opened()
    failing = {4: "diverged", 6: "out of memory", 8: "error", 9: "stalled"}
    race(None, folder, train=runner(folder.protocol, folder, failing))
    assert [record["status"] for record in folder.records] == [
        *("diverged", "reached", "out of memory", "reached", "error", "stalled")
    ]


@pytest.mark.parametrize("call", range(1, 10))
def test_an_interrupted_race_goes_on_with_what_is_missing_and_nothing_else(opened, runner, call):
    folder = opened()
    with pytest.raises(KeyboardInterrupt):
        race(None, folder, train=runner(folder.protocol, folder, {call: KeyboardInterrupt()}))
    done = max(0, call - 4)
    assert len(read_records(folder.path)) == done
    folder = opened(resume=True)
    train = runner(folder.protocol, folder)
    race(None, folder, train=train)
    left = RUNS[done:]
    waiting = {run.split("/")[0] for run in left}
    assert train.trace == [warm for warm in WARM if warm[5:].split("/")[0] in waiting] + left
    assert [f"{record['candidate']}/{record['seed']}" for record in read_records(folder.path)] == RUNS
    assert folder.interrupted() == ([f"{left[0].replace('/', '-seed')}.interrupted-1.jsonl"] if call > 3 else [])


def test_a_finished_race_runs_nothing(opened, runner):
    folder = opened()
    race(None, folder, train=runner(folder.protocol, folder))
    folder = opened(resume=True)
    train = runner(folder.protocol, folder)
    race(None, folder, train=train)
    assert train.trace == []


KILLED = """
import json, os, signal, sys
from pathlib import Path
from truestep.compare import Protocol
from truestep.compare.folder import Folder
from truestep.compare.race import race
protocol, records, last = json.load(sys.stdin)
class Ended(dict):
    as_dict = dict.copy
def train(task, settings, *, seed, ledger=None, progress=None, protocol_hash=None):
    if protocol_hash is not None and len(folder.records) == last:
        with open(folder.path / "records.jsonl", "ab") as file:
            file.write(b'{"candidate": "bf')  # a record on its way
        os.kill(os.getpid(), signal.SIGKILL)
    return Ended(records[f"{settings.candidate}/{seed}"])
folder = Folder.opened(Path(sys.argv[1]), Protocol.from_dict(protocol), resume=False)
race(None, folder, train=train)
"""


def test_a_killed_process_loses_the_run_under_way_and_no_other(opened, runner, ran):
    folder = opened()
    protocol, path = folder.protocol, folder.path
    del folder  # a folder is held by one process at a time, for as long as this lives
    records = {f"{name}/{seed}": ran(protocol, name, seed) for name in protocol.candidates for seed in (3, 5, 6)}
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)],
        input=json.dumps([protocol.as_dict(), records, 4]),
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        text=True,
        capture_output=True,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    folder = opened(resume=True)
    assert [f"{record['candidate']}/{record['seed']}" for record in folder.records] == RUNS[:4]
    train = runner(protocol, folder)
    race(None, folder, train=train)
    assert train.trace == ["warm fp32/6", "warm fp16/6", *RUNS[4:]]
    assert [f"{record['candidate']}/{record['seed']}" for record in read_records(folder.path)] == RUNS


def test_a_baseline_that_cannot_be_run_ends_the_race_before_any_record(opened, runner):
    folder = opened()
    with pytest.raises(errors.RunError, match="baseline fp32 cannot be run: error at attempt 100") as caught:
        race(None, folder, train=runner(folder.protocol, folder, {1: "error"}))
    assert caught.value.hint == "mend the task and ask again; no run has been recorded"
    assert read_records(folder.path) == []


def test_a_baseline_that_truestep_itself_refuses_keeps_the_hint(opened, runner):
    folder = opened()
    train = runner(folder.protocol, folder, {1: "error"})

    def refused(*arguments, **named):
        return Ended(train(*arguments, **named).as_dict() | {"hint": "define weight(self, microbatch) in the task"})

    with pytest.raises(errors.RunError) as caught:
        race(None, folder, train=refused)
    assert caught.value.hint == "define weight(self, microbatch) in the task; no run has been recorded"


def test_a_candidate_whose_warm_up_fails_runs_all_the_same(opened, runner):
    folder = opened()
    race(None, folder, train=runner(folder.protocol, folder, {2: "error", 3: "diverged"}))
    assert len(folder.records) == 6


def test_a_run_from_other_weights_than_declared_is_refused(opened, runner):
    folder = opened(initial_weights={"3": "a" * 64, "5": "a" * 64})
    train = runner(opened(resume=True, initial_weights=folder.protocol.initial_weights).protocol, folder)

    def elsewhere(*arguments, seed, **named):
        return Ended(train(*arguments, seed=seed, **named).as_dict() | {"initial_digest": "e" * 64})

    with pytest.raises(errors.RunError, match="fp32, seed 3: the run started from other weights") as caught:
        race(None, folder, train=elsewhere)
    assert (caught.value.declared, caught.value.found) == ("a" * 64, "e" * 64)
    assert read_records(folder.path) == []


@pytest.mark.parametrize("call", [2, 5])
def test_a_run_on_other_data_than_declared_is_refused_warm_ups_included(opened, runner, call):
    folder = opened()
    train = runner(folder.protocol, folder)

    def drawn(*arguments, **named):
        record = train(*arguments, **named).as_dict()
        return Ended(record | ({"data_digest": "e" * 64} if len(train.trace) == call else {}))

    with pytest.raises(errors.RunError, match=r"bf16, seed [36]: the run's data are not those") as caught:
        race(None, folder, train=drawn)
    assert (caught.value.declared, caught.value.found) == ("d" * 64, "e" * 64)
    assert len(read_records(folder.path)) == max(0, call - 4)


def test_a_run_that_built_no_model_has_no_weights_to_differ(opened, runner):
    folder = opened()
    train = runner(folder.protocol, folder, {5: "error"})

    def broken(*arguments, **named):
        record = train(*arguments, **named).as_dict()
        return Ended(record | ({"initial_digest": None} if record["status"] == "error" else {}))

    race(None, folder, train=broken)
    assert folder.records[1]["initial_digest"] is None


def test_what_a_ledger_cannot_write_passes_and_keeps_what_is_done(opened, runner):
    folder = opened()
    with pytest.raises(errors.LedgerError):
        race(None, folder, train=runner(folder.protocol, folder, {6: errors.LedgerError("disk full")}))
    assert len(read_records(folder.path)) == 2


def test_a_listener_hears_each_run_start_go_on_and_end_after_its_record_is_kept(opened, runner):
    folder = opened(seeds=(3,), candidates=("fp32",))
    heard = []

    def listen(event):
        what = "end" if event.record is not None else "start" if event.inside is None else event.inside
        heard.append((event.slot.candidate, event.slot.position, event.total, event.warmup, what, len(read_records(folder.path))))

    race(None, folder, train=runner(folder.protocol, folder), progress=listen)
    assert heard == [
        ("fp32", 0, 1, True, "start", 0),
        ("fp32", 0, 1, True, "end", 0),
        ("fp32", 1, 1, False, "start", 0),
        ("fp32", 1, 1, False, "half-way", 0),
        ("fp32", 1, 1, False, "end", 1),
    ]


def test_a_warm_up_is_short_and_evaluates_and_a_run_is_the_protocols(opened, runner):
    folder = opened()
    train = runner(folder.protocol, folder)
    race(None, folder, train=train)
    warm, full = train.settings[0], train.settings[3]
    assert (warm.budget_attempts, warm.evaluate_every, warm.stop_at_target) == (4, 64, False)
    assert (full.budget_attempts, full.evaluate_every, full.stop_at_target) == (400, 320, True)
