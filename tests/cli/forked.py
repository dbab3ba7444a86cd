"""`truestep` in a process of its own that begins at once: a fork of the tests' own, which has imported torch already."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback

from truestep.cli import main

FORK = multiprocessing.get_context("fork")


class Forked:
    """`truestep ARGUMENTS` in a fork with a session of its own, on pipes or a terminal; names are those of subprocess.Popen."""

    def __init__(self, *arguments: str, terminal: int | None = None) -> None:
        pipes = [os.pipe(), os.pipe()]
        streams = [writing if terminal is None else terminal for _, writing in pipes]
        self._process = FORK.Process(target=_become, args=(arguments, streams))
        self._process.start()
        for _, writing in pipes:
            os.close(writing)
        self.stdout, self.stderr = [os.fdopen(reading) for reading, _ in pipes]

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def communicate(self) -> tuple[str, str]:
        """What is left of stdout, which must fit into a pipe, and of stderr; then the process has ended."""
        with self.stdout, self.stderr:
            err, out = self.stderr.read(), self.stdout.read()
        self._process.join()
        return out, err


def _become(arguments: tuple[str, ...], streams: list[int]) -> None:
    code = 70
    try:
        os.setsid()
        for place, stream in enumerate(streams, 1):
            os.dup2(stream, place)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", buffering=1, closefd=False)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        code = main(arguments)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
