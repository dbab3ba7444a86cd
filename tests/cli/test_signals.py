"""The handler of Ctrl-C and SIGTERM: it never raises, never waits, and takes two at once for one."""

import os
import pty
import signal
import time
from contextlib import contextmanager

import pytest

from truestep.cli import _signals
from truestep.cli._signals import Interrupted, Signals


@contextmanager
def stderr_is(descriptor):
    """Inside, file descriptor 2 is another one."""
    kept = os.dup(2)
    try:
        os.dup2(descriptor, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def heard(*numbers):
    """What is left after these signals, in a run that has begun."""
    with Signals() as signals:
        signals.has_begun = True
        for number in numbers:
            signal.raise_signal(number)
    return signals.code


def test_a_reader_of_stderr_that_is_gone_raises_nothing():
    reading, writing = os.pipe()
    os.close(reading)
    with stderr_is(writing):
        os.close(writing)
        assert heard(signal.SIGINT) == 130


def test_a_stderr_that_nobody_reads_is_not_waited_for():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writing, bytes(4096))
    os.set_blocking(writing, True)
    with stderr_is(writing):
        assert heard(signal.SIGTERM) == 143
    os.close(writing)
    os.close(reading)


def test_a_signal_while_stderr_is_written_does_not_enter_it_again(monkeypatch):
    class Busy:
        def write(self, text):
            raise RuntimeError("reentrant call")

        flush = fileno = write

    monkeypatch.setattr("sys.stderr", Busy())
    assert heard(signal.SIGINT) == 130


def test_two_signals_at_once_are_one_and_the_first_decides():
    assert heard(signal.SIGTERM, signal.SIGTERM, signal.SIGINT) == 143


def test_before_the_run_has_begun_the_first_ends_it_and_its_echo_does_nothing():
    with Signals() as signals:
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert signals.code == 143


def test_a_second_signal_gives_the_terminal_its_cursor_back(monkeypatch):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    ours, theirs = pty.openpty()
    with stderr_is(theirs):
        moments = iter([0.0, _signals._ONE_SECONDS])
        monkeypatch.setattr(time, "monotonic", lambda: next(moments))
        heard(signal.SIGINT, signal.SIGINT)
    told = os.read(ours, 4096)
    os.close(ours)
    os.close(theirs)
    assert ended[0] == 130
    assert told.startswith(b"\r\x1b[2Kending after this attempt")
    assert b"\n\x1b[?25h\r\x1b[2K" in told
