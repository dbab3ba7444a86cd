"""Whoever has stopped listening to what is said ends no work; whoever has stopped reading data ends it with 141."""

import os
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

from tests import ready
from tests.no_room import no_room
from truestep.cli._output import Talk, print_table, silence

TRAIN = ["train", "logistic", "--budget-attempts", "6", "--device", "cpu", "--evaluate-every", "64", "--out", "out"]


@pytest.fixture
def nobody_reads():
    """A text stream into a pipe whose reader has gone."""
    reading, writing = os.pipe()
    os.close(reading)
    stream = open(writing, "w", buffering=1)  # noqa: SIM115 - as sys.stderr is
    yield stream
    silence(stream)
    stream.close()


def shell(words, cwd):
    """`truestep` with what a shell does to its streams."""
    command = words.replace("truestep", f"exec {sys.executable} -m truestep", 1)
    return subprocess.run(["sh", "-c", command], cwd=cwd, capture_output=True, text=True, check=False)


def test_talk_that_nobody_reads_is_lost_without_a_word(nobody_reads):
    talk = Talk(nobody_reads)
    print("first", file=talk)
    print("second", file=talk, flush=True)
    assert talk.fileno() == nobody_reads.fileno()


def test_talk_on_a_full_disk_is_lost_without_a_word(tmp_path):
    with open(tmp_path / "log", "w") as full, no_room():
        talk = Talk(full)
        print("buffered", file=talk)
        talk.flush()
    assert (tmp_path / "log").read_text() == ""


def test_talk_that_can_be_written_is_written(capsys):
    print("word", file=Talk(sys.stderr))
    assert capsys.readouterr().err == "word\n"


def test_a_table_whose_reader_has_gone_says_so_to_main(nobody_reads):
    with redirect_stdout(nobody_reads), pytest.raises(BrokenPipeError):
        print_table("title", ["a"], [["1"]])


def test_a_run_ends_well_whoever_has_stopped_listening(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    ended = ready.run("-m", "truestep", *TRAIN, cwd=tmp_path, stderr=writing)
    os.close(writing)
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[2].split()[0] == "budget"
    assert (tmp_path / "out/record.json").exists()


@pytest.mark.parametrize(
    ("words", "out", "err"),
    [("formats >&-", False, False), ("--version 2>&-", True, False), ("--version <&- >&- 2>&-", False, False)],
)
def test_a_stream_that_is_closed_is_no_fault(words, out, err, tmp_path):
    ended = shell(f"truestep {words}", tmp_path)
    assert (ended.returncode, bool(ended.stdout), bool(ended.stderr)) == (0, out, err)
