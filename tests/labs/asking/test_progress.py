"""The file of progress only grows; whatever the moment of a death, at most the answer that was being written is lost."""

import json
import random
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from truestep.errors import FileError
from truestep.labs.asking.progress import Answered, append, home, prepare, read


def answered(number):
    time_ = datetime(2026, 1, 1, 12, number % 60, tzinfo=UTC)
    return Answered(
        name=f"lab/{number}", time=time_, right=False, points=1, total=3, confidence=4, answer=["\u2028 \udc80 é", number]
    )


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "new" / "labs.jsonl"
    assert prepare(path).answered == ()
    for number in range(3):
        append(path, answered(number))
    assert read(path).answered == tuple(map(answered, range(3)))
    assert [json.loads(line)["schema"] for line in path.read_text().splitlines()] == [1, 1, 1]


def test_torn_anywhere_only_the_last_is_lost_and_the_next_is_whole(tmp_path):
    path = tmp_path / "labs.jsonl"
    for number in range(2):
        append(path, answered(number))
    whole = path.read_bytes()
    first = len(whole.split(b"\n")[0]) + 1
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        kept = read(path)
        lines = (length >= first - 1) + (length >= len(whole) - 1)
        assert kept.answered == tuple(map(answered, range(lines))), length
        assert len(kept.unread) == (length not in (0, first - 1, first, len(whole) - 1)), length
        append(path, answered(7))
        assert read(path).answered == (*kept.answered, answered(7)), length


WRITER = """
import sys
from pathlib import Path
from tests.labs.asking.test_progress import answered
from truestep.labs.asking.progress import append
print("begins", flush=True)
for number in range(int(sys.argv[2]), 10**6):
    append(Path(sys.argv[1]), answered(number))
"""


def test_a_writer_that_is_killed_leaves_whole_lines(tmp_path):
    path, moments = tmp_path / "labs.jsonl", random.Random(0)
    for _ in range(3):
        begun = len(read(path).answered)
        command = [sys.executable, "-c", WRITER, str(path), str(begun)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as process:
            assert process.stdout.readline() == b"begins\n"
            time.sleep(moments.uniform(0.01, 0.1))
            process.kill()
        kept = read(path)
        assert kept.answered == tuple(map(answered, range(len(kept.answered))))
        assert len(kept.unread) <= 1
        path.write_bytes(b"".join(line + b"\n" for line in path.read_bytes().split(b"\n")[: len(kept.answered)]))
    assert kept.answered


ALONE = (b'{"a": 1}\n', b'{"a": 1', b'{"schema": 1, "kind": "header"}\n', b'\n{"a": 1', b"[" * 100_000)
"""One line alone may be a torn record of ours. These are none."""


@pytest.mark.parametrize("content", [b"import torch\nmodel = 1\n", b"\x00\xff\x80", b'{"a": 1}\n{"a": 2}\n', b"[]\n", *ALONE])
def test_a_file_of_something_else_is_refused_and_stays_as_it_is(tmp_path, content):
    path = tmp_path / "train.py"
    path.write_bytes(content)
    with pytest.raises(FileError, match="no file of progress"):
        prepare(path)
    assert path.read_bytes() == content


def test_lines_that_are_no_records_are_told_and_left_out(tmp_path):
    path = tmp_path / "labs.jsonl"
    append(path, answered(0))
    record = json.loads(path.read_text())
    broken = [{**record, "confidence": 9}, {**record, "time": "now"}, {**record, "time": "2026-01-01"}, {**record, "total": 0}, 3]
    broken.append({name: value for name, value in record.items() if name != "points"})
    with path.open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in broken)
    append(path, answered(1))
    assert read(path).answered == (answered(0), answered(1))
    assert read(path).unread == (2, 3, 4, 5, 6, 7)


def test_a_newer_schema_is_not_guessed_at(tmp_path):
    path = tmp_path / "labs.jsonl"
    path.write_text('{"schema": 2, "of": "another time"}\n')
    with pytest.raises(FileError, match="newer"):
        read(path)


def test_a_place_that_cannot_be_written_is_said_before_the_first_question(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "labs.jsonl", tmp_path):
        with pytest.raises(FileError) as raised:
            prepare(path)
        assert "--progress-file" in raised.value.hint


def test_a_full_disk_is_said_and_what_was_kept_stays(tmp_path):
    path = tmp_path / "labs.jsonl"
    append(path, answered(0))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 5, limits[1]))  # there is room for five bytes
    try:
        with pytest.raises(FileError, match="cannot be written"):
            append(path, answered(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read(path).answered == (answered(0),)
    append(path, answered(2))
    assert read(path).answered == (answered(0), answered(2))


def test_its_home_is_the_state_folder():
    assert home({"XDG_STATE_HOME": "/state"}) == Path("/state/truestep/labs.jsonl")
    default = Path.home() / ".local" / "state" / "truestep" / "labs.jsonl"
    assert home({}) == home({"XDG_STATE_HOME": "relative"}) == home({"XDG_STATE_HOME": ""}) == default
