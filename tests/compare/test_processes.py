"""Runs in processes of their own: whatever becomes of one is a record, and the others go on."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.compare import commands
from tests.compare.processes import children_in
from truestep.compare import summarize
from truestep.compare.kept import read_protocol, read_records
from truestep.compare.process import uninterrupted

FAULTS = Path(__file__).parent / "faults.py"
ENDINGS = {2: "crashed", 3: "crashed", 4: "out of memory", 5: "timed out", 6: "crashed", 10: "diverged", 12: "stalled"}
CANDIDATES = ["fp32", *(f"fp32 accumulate={number}" for number in ENDINGS)]


def compared(*more):
    """The command line that compares the faults."""
    return ["compare", "faults.py:Faults", "--seeds", "1", "--out", "out", *more]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """The folder of a comparison of every fault, and what its command printed."""
    folder = tmp_path_factory.mktemp("faulty")
    shutil.copy(FAULTS, folder)
    ended = commands.run(*compared("--candidates", *CANDIDATES, "--timeout", "9"), cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return folder / "out", ended.stdout


def records_of(out):
    return {record["candidate"]: record for record in read_records(out)}


def test_every_way_to_end_is_recorded_and_the_others_have_run(faulty):
    records = records_of(faulty[0])
    assert {name: record["status"] for name, record in records.items()} == dict(
        zip(CANDIDATES, ["reached", *ENDINGS.values()], strict=True)
    )
    for name, record in records.items():
        if name != "fp32":
            assert record["counts"]["completed"] == 5, "what its ledger holds"
            assert record["to_target"] is None
            assert [place["completed"] for place in record["evaluations"]][:2] == [2, 4]


@pytest.mark.parametrize(
    ("microbatches", "words"),
    [
        (2, ["SIGSEGV", "after 5 attempts", "faults.py, line", "(segfault)"]),
        (3, ["SIGKILL", "after 5 attempts", "memory"]),
        (4, ["can't allocate memory", "in exhausted"]),
        (5, ["after 9 s, the limit", "after 5 attempts", "(hung)", "nothing was heard of it for"]),
        (6, ["exit code 7", "after 5 attempts", "its last words: I leave"]),
        (10, ["non-finite loss"]),
        (12, ["undefined gradient"]),
    ],
)
def test_what_happened_is_told_in_words_in_the_record_and_by_the_command(faulty, microbatches, words):
    out, printed = faulty
    candidate = f"fp32 accumulate={microbatches}"
    detail = records_of(out)[candidate]["detail"]
    assert all(word in detail for word in words), detail
    assert f"Not reached: {candidate}, seed 0, {ENDINGS[microbatches]}: {detail}" in printed
    assert f"0/1, 1 {ENDINGS[microbatches]}" in printed


def test_a_run_that_died_is_charged_the_whole_budget_and_its_clocks_sum_to_its_total(faulty):
    out, _ = faulty
    summary = summarize(read_protocol(out), read_records(out))
    seconds = [row.standing.estimates["seconds"] for row in summary.rows]
    assert all(estimate.restricted_mean == estimate.tau for estimate in seconds[1:])
    assert all(estimate.ert is None for estimate in seconds[1:])
    for record in records_of(out).values():
        assert sum(record["clocks"].values()) == pytest.approx(record["total_seconds"], rel=0.01)
    hung = records_of(out)["fp32 accumulate=5"]
    assert hung["clocks"]["waste"] > 7, "what it hung"
    assert hung["process"]["wall_seconds"] > 9


def test_the_memory_of_the_dead_and_of_the_living_is_told(faulty):
    for record in records_of(faulty[0]).values():
        assert record["process"]["peak_memory_bytes"] > 2**26


def test_a_dead_run_is_no_contention(faulty):
    out, _ = faulty
    rows = summarize(read_protocol(out), read_records(out)).rows
    for row, record in zip(rows, read_records(out), strict=True):
        died = record["process"]["exit_code"] != 0
        assert (record["cpu_seconds"] is None) is (row.standing.cpu_share is None) is died, record["candidate"]


def until(what, *, seconds=300):
    """Wait for what must come; how long is no part of the law."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it has not come"
        time.sleep(0.01)


def test_after_kill_9_nobody_is_left_and_a_resume_does_what_is_left_and_that_only_and_failures_on_request(tmp_path, monkeypatch):
    shutil.copy(FAULTS, tmp_path)
    monkeypatch.chdir(tmp_path)
    out, name = Path("out"), "fp32 accumulate=5"
    arguments = compared("--candidates", "fp32", name, "--timeout", "3")
    parent = commands.started(*arguments)
    until((out / "ledgers" / "fp32-accumulate-5-seed0.jsonl").exists)
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    until(lambda: children_in(out) == [])
    kept = (out / "records.jsonl").read_bytes()
    assert list(records_of(out)) == ["fp32"]

    resumed = commands.run(*arguments, "--resume")
    assert resumed.returncode == 0
    assert (out / "records.jsonl").read_bytes().startswith(kept)
    first = records_of(out)[name]
    assert (first["status"], first["process"]["earlier"]) == ("timed out", [])
    assert "Interrupted and run again: fp32-accumulate-5-seed0.interrupted-1.jsonl" in resumed.stdout
    assert resumed.stderr.count("\n") == 1, "one run was left"

    resumed = commands.run(*arguments, "--resume")
    assert (resumed.returncode, resumed.stderr) == (0, "")
    resumed = commands.run(*arguments, "--resume", "--rerun-failed")
    assert resumed.returncode == 0
    again = records_of(out)[name]
    assert (out / "records.jsonl").read_bytes().startswith(kept)
    assert f"Failed and run again: {name}, seed 0, timed out: {first['detail']}" in resumed.stdout
    assert [earlier["detail"] for earlier in again["process"]["earlier"]] == [first["detail"]]
    assert again["clocks"]["waste"] > first["total_seconds"]
    assert sum(again["clocks"].values()) == pytest.approx(again["total_seconds"], rel=0.01)


def test_a_signal_waits_until_a_new_process_is_known():
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard == []
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
