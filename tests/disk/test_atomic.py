"""A file is written whole or not at all."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from tests.disk.faults import ERRORS, errors_of, in_child, intercepted, killed, short, traced
from truestep.disk import atomic

OLD, NEW = b"old" * 50, b"new" * 1000


def fill(file):
    """As a writer that goes back to its head does."""
    file.write(bytes(30))
    for start in range(30, len(NEW), 70):
        file.write(NEW[start : start + 70])
    file.seek(0)
    file.write(NEW[:30])


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "BUFFER_BYTES", 256)  # many writes of a small file
    (tmp_path / "file").write_bytes(OLD)
    return tmp_path / "file"


def names(path):
    return sorted(os.listdir(path.parent))


@pytest.mark.parametrize("content", [NEW, fill])
def test_the_new_content_takes_the_old_ones_place_and_nothing_else_is_left(path, content):
    atomic.write(path, content)
    assert path.read_bytes() == NEW
    assert names(path) == ["file"]


def test_the_file_is_synced_before_it_is_renamed_and_the_folder_after(path):
    log = []
    with intercepted(traced(log)):
        atomic.write(path, NEW)
    calls = [name for name, _ in log]
    assert calls == ["open", "write", "fsync", "close", "replace", "open", "fsync", "close"]
    assert log[5][1] == path.parent


def test_writes_that_the_system_cuts_short_are_gone_on_with(path):
    with intercepted(short):
        atomic.write(path, fill)
    assert path.read_bytes() == NEW


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_after_a_kill_at_any_system_call_the_file_is_the_old_one_or_the_new(path, when):
    def write(at):
        with intercepted(killed(at, when)):
            atomic.write(path, fill)

    found, at = [], 1
    while (ended := in_child(lambda: write(at))) == -signal.SIGKILL:  # noqa: B023 - the child runs now
        found.append(path.read_bytes())
        path.write_bytes(OLD)
        atomic.sweep(path.parent)
        assert names(path) == ["file"]
        at += 1
    assert ended == 0
    assert at > 15
    switch = found.index(NEW)  # the rename; old before it, new from it on
    assert found == [OLD] * switch + [NEW] * (len(found) - switch)


@pytest.mark.parametrize("code", ERRORS)
def test_after_an_error_at_any_system_call_the_file_is_whole_and_there_is_no_temporary(path, code):
    errors = 0
    for error in errors_of(lambda _: atomic.write(path, fill), code):
        errors += 1
        assert error.errno == code
        assert path.read_bytes() in (OLD, NEW)
        assert names(path) == ["file"]
        path.write_bytes(OLD)
    assert errors > 15


def test_an_exception_of_the_writer_or_of_the_check_leaves_the_old_file_and_no_temporary(path):
    def interrupted(file):
        file.write(NEW)
        raise KeyboardInterrupt

    def refuse(temporary):
        assert temporary.read_bytes() == NEW
        raise ValueError

    with pytest.raises(KeyboardInterrupt):
        atomic.write(path, interrupted)
    with pytest.raises(ValueError, match=r"^$"):
        atomic.write(path, NEW, check=refuse)
    assert path.read_bytes() == OLD
    assert names(path) == ["file"]


def test_a_file_larger_than_the_process_may_write_is_an_error_and_leaves_the_old_one(path):
    text = (
        "import pathlib, resource, runpy, sys\n"  # the file alone, for the package would import torch
        "write = runpy.run_path(sys.argv[1])['write']\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write(pathlib.Path(sys.argv[2]), bytes(3000))\n"
        "except OSError as error: print(error.errno)"
    )
    done = subprocess.run([sys.executable, "-c", text, atomic.__file__, str(path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) == errno.EFBIG
    assert path.read_bytes() == OLD
    assert names(path) == ["file"]


def test_a_sweep_removes_the_temporaries_of_its_names_alone(path):
    kept = {"file", ".file", ".file.new", ".other.0123abcd.new", "file.0123abcd.new"}
    for name in {*kept, ".file.0123abcd.new"} - {"file"}:
        (path.parent / name).write_bytes(b"")
    atomic.sweep(path.parent, "file")
    assert set(names(path)) == kept


def test_a_proof_that_a_folder_can_be_written_leaves_nothing_and_fails_where_it_cannot(path):
    atomic.prove_writable(path.parent / "other")
    assert names(path) == ["file"]
    with pytest.raises(NotADirectoryError):
        atomic.prove_writable(path / "other")
    errors = 0
    for error in errors_of(lambda _: atomic.prove_writable(path.parent / "other"), errno.EIO):
        errors += error is not None
        assert names(path) == ["file"]
    assert errors == 5, "open, write, fsync, close, unlink"
