"""What is written stays written: appended, whole lines, whatever ends the run."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import ready
from tests.no_room import NO_ROOM, no_room
from truestep.engine.outcome import Outcome
from truestep.errors import LedgerError
from truestep.ledger import Ledger, outcomes, read

Attempts = Callable[..., list[Outcome]]
Write = Callable[..., Path]

WRITER = """
import sys
from dataclasses import replace
from truestep.engine.counts import Counts
from truestep.engine.outcome import Outcome
from truestep.errors import LedgerError
from truestep.ledger import Ledger

def attempt(counts):
    return Outcome(policy="fp32", skip=None, loss=1.0, lr=(0.1,), grad_norm=1.0, grad_norm_clipped=1.0, loss_scale=1.0,
                   next_loss_scale=1.0, weight=1.0, weight_check="", microbatches=1, examples=1, tokens=None,
                   seconds=0.1, counts=counts)

def forever(path):
    counts = Counts()
    with Ledger(path, environment={}) as ledger:
        while True:
            counts = counts.after(reason=None, examples=1, tokens=None)
            ledger.record(attempt(counts))
            print(counts.attempts, flush=True)
"""


def test_the_header_tells_run_environment_policy_and_protocol(tmp_path: Path) -> None:
    Ledger(tmp_path / "run.jsonl", policy="bf16", protocol_hash="ab12", run_id="seed 3", environment={"gpu": 1}).close()
    (header,) = read(tmp_path / "run.jsonl")
    created = header.pop("created")
    assert header == {
        "kind": "header",
        "schema": 1,
        "run_id": "seed 3",
        "environment": {"gpu": 1},
        "policy": "bf16",
        "protocol_hash": "ab12",
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", created)


def test_two_runs_without_a_name_get_different_ones(tmp_path: Path) -> None:
    for name in "ab":
        Ledger(tmp_path / name, environment={}).close()
    assert next(read(tmp_path / "a"))["run_id"] != next(read(tmp_path / "b"))["run_id"]


def test_a_line_can_be_read_as_soon_as_it_is_recorded(tmp_path: Path, make_attempts: Attempts) -> None:
    recorded = make_attempts([None, None])
    with Ledger(tmp_path / "run.jsonl", environment={}) as ledger:
        ledger.record(recorded[0])
        assert list(outcomes(ledger.path)) == recorded[:1]
        ledger.record(recorded[1])
        assert list(outcomes(ledger.path)) == recorded


def test_an_existing_file_is_refused_by_name_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious.txt"
    path.write_text("precious")
    with pytest.raises(LedgerError, match=r"precious\.txt exists"):
        Ledger(path, environment={})
    assert path.read_text() == "precious"


@pytest.mark.parametrize("path", ["nowhere/run.jsonl", "."])
def test_a_path_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path, path: str) -> None:
    with pytest.raises(LedgerError, match=r"cannot be opened|exists"):
        Ledger(tmp_path / path, environment={})


def test_an_environment_that_json_cannot_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="environment cannot be written as JSON"):
        Ledger(tmp_path / "run.jsonl", environment={"model": object()})


def test_a_closed_ledger_takes_nothing(tmp_path: Path, make_attempts: Attempts) -> None:
    with Ledger(tmp_path / "run.jsonl", environment={}) as ledger:
        pass
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.record(make_attempts([None])[0])


def test_an_attempt_that_is_not_later_than_the_last_is_refused(tmp_path: Path, make_attempts: Attempts) -> None:
    first, second = make_attempts([None, None])
    with Ledger(tmp_path / "run.jsonl", environment={}) as ledger:
        ledger.record(second)
        for outcome in (second, first):
            with pytest.raises(LedgerError, match="comes after attempt 2"):
                ledger.record(outcome)
    assert list(outcomes(tmp_path / "run.jsonl")) == [second]


def test_resume_begins_a_ledger_where_there_is_none(write: Write, make_attempts: Attempts) -> None:
    recorded = make_attempts([None])
    path = write(recorded, resume=True)
    assert [line["kind"] for line in read(path)] == ["header", "attempt"]


def test_resume_cuts_a_line_torn_at_any_byte_and_goes_on(tmp_path: Path, write: Write, make_attempts: Attempts) -> None:
    recorded = make_attempts([None, None, None])
    whole = write(recorded[:2]).read_bytes()
    for size in range(len(whole) + 1):
        path = tmp_path / "torn.jsonl"
        path.write_bytes(whole[:size])
        lines = whole[:size].count(b"\n")
        done = max(0, lines - 1)
        with Ledger(path, resume=True, environment={}) as ledger:
            for outcome in recorded[done:]:
                ledger.record(outcome)
        assert list(outcomes(path)) == recorded
        resumes = [line["attempts"] for line in read(path) if line["kind"] == "resume"]
        assert resumes == ([done] if lines else [])


def test_resume_refuses_another_run_or_protocol_and_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    Ledger(path, run_id="mine", protocol_hash="aa", environment={}).close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="run_id is mine, not yours"):
        Ledger(path, resume=True, run_id="yours", environment={})
    with pytest.raises(LedgerError, match="protocol_hash is aa, not bb"):
        Ledger(path, resume=True, protocol_hash="bb", environment={})
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", [b"x", b"notes\n", b'{"kind": "header"}\n', b'{"kind": "headless', b"\0" * 200_000])
def test_resume_refuses_a_foreign_file_and_leaves_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=r"notes is no truestep ledger|notes is a ledger of schema None"):
        Ledger(path, resume=True, environment={})
    assert path.read_bytes() == content


def test_a_resume_without_an_attempt_leaves_no_trace(write: Write, make_attempts: Attempts) -> None:
    path = write(make_attempts([None]))
    before = path.read_bytes()
    write([], resume=True)
    assert path.read_bytes() == before


def test_a_resume_that_is_told_where_it_goes_on_counts_no_line_beyond_if_no_attempt_follows(
    write: Write, make_attempts: Attempts
) -> None:
    path = write(make_attempts([None] * 5))
    with Ledger(path, resume=True, environment={}) as ledger:
        ledger.go_on_after(3)
    assert [outcome.counts.attempts for outcome in outcomes(path)] == [1, 2, 3]
    with Ledger(path, resume=True, environment={}) as ledger:
        ledger.go_on_after(2)
        ledger.record(make_attempts([None] * 3)[-1])
    assert [outcome.counts.attempts for outcome in outcomes(path)] == [1, 2, 3]
    assert [line["attempts"] for line in read(path) if line["kind"] == "resume"] == [3, 2]


def test_only_a_ledger_that_is_gone_on_in_says_so(tmp_path: Path) -> None:
    with Ledger(tmp_path / "run.jsonl", environment={}) as ledger:
        ledger.go_on_after(0)
    assert [line["kind"] for line in read(tmp_path / "run.jsonl")] == ["header"]


def test_a_full_disk_is_an_error_at_once(tmp_path: Path) -> None:
    with no_room(), pytest.raises(LedgerError, match=NO_ROOM):
        Ledger(tmp_path / "run.jsonl", environment={})


def test_a_device_is_written_to_as_it_is(tmp_path: Path, make_attempts: Attempts) -> None:
    device = tmp_path / "device"
    device.symlink_to(os.devnull)  # a link, so that a ledger which takes its place does no harm
    with Ledger(device, environment={}) as ledger:
        ledger.record(make_attempts([None])[0])
    assert device.is_char_device()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_a_pipe_that_nobody_reads_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(tmp_path / "pipe", environment={})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_a_pipe_carries_more_than_it_holds_at_once(tmp_path: Path, make_attempts: Attempts) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = [sys.executable, "-c", "import sys; print(sum(1 for _ in open(sys.argv[1])))", str(pipe)]
    with subprocess.Popen(reader, stdout=subprocess.PIPE, text=True) as process:
        ledger = None
        while ledger is None:
            with contextlib.suppress(LedgerError):  # until the reader has opened its end
                ledger = Ledger(pipe, environment={})
        assert ledger._file is not None
        assert os.get_blocking(ledger._file.fileno()), "a full pipe is waited for, not asked over and over"
        with ledger:
            for outcome in make_attempts([None] * 300):  # 200 kB; a pipe of Linux holds 64
                ledger.record(outcome)
        assert process.stdout is not None
        assert process.stdout.read() == "301\n"


def test_a_full_disk_is_an_error_and_the_earlier_lines_stay_readable(tmp_path: Path) -> None:
    code = (
        WRITER
        + """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    forever(sys.argv[1])
except LedgerError as error:
    print("LedgerError", error.kept_attempts, error.summary)
"""
    )
    path = tmp_path / "run.jsonl"
    *numbers, last = ready.run("-c", code, str(path)).stdout.splitlines()
    assert last == f"LedgerError {len(numbers)} the ledger cannot be written: File too large"
    assert len(list(outcomes(path))) == len(numbers) > 3
    assert path.read_bytes().endswith(b"\n")


def test_kill_9_leaves_every_recorded_attempt_readable(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    process = ready.started("-c", WRITER + "forever(sys.argv[1])", str(path))
    assert process.stdout is not None
    for _ in range(20):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    recorded = 20 + len(process.communicate()[0].splitlines())
    kept = [outcome.counts.attempts for outcome in outcomes(path)]
    # one attempt may have been recorded and not yet announced; its announcement may also be torn
    assert kept == list(range(1, len(kept) + 1))
    assert recorded - 1 <= len(kept) <= recorded + 1


class Interrupted:
    """A raw file of which a write stops halfway with `error`."""

    def __init__(self, file: object, error: BaseException) -> None:
        self._file, self._error, self._half = file, error, False

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        if self._half:
            raise self._error
        self._half = True
        return int(self._file.write(data[: len(data) // 2]))  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(5, "Input/output error")])
def test_a_write_that_stops_halfway_leaves_no_half_line(tmp_path: Path, make_attempts: Attempts, error: BaseException) -> None:
    first, second = make_attempts([None, None])
    with Ledger(tmp_path / "run.jsonl", environment={}) as ledger:
        ledger.record(first)
        before = ledger.path.read_bytes()
        ledger._file = Interrupted(ledger._file, error)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else LedgerError):
            ledger.record(second)
        assert ledger.path.read_bytes() == before


def test_every_line_is_strict_json(write: Write, full_outcome: Outcome) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for line in write([full_outcome]).read_text().splitlines():
        json.loads(line, parse_constant=refuse)
