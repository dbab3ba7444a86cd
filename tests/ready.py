"""Python processes that begin with torch and truestep imported, which costs a process of its own five seconds.

A server has imported them and computed nothing; a process that is asked for is a fork of it, which goes on as `python
ARGUMENTS` would: its streams, folder, environment, session, signals and exit are its own. What a test looks at before the
imports (help that must not wait for torch, a stream that is closed, `sitecustomize`) needs a real start.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import json
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

PIPE = subprocess.PIPE
_ROOT = Path(__file__).parents[1]
_MOST_BYTES = 1 << 18
_CHANNEL = "TRUESTEP_TESTS_READY"
"""Names the descriptor through which a command of a shell's asks for its process."""


class Process:
    """A process that was begun, with the words of `subprocess.Popen`; its streams are text."""

    def __init__(self, told: int, stdout: IO[str] | None, stderr: IO[str] | None) -> None:
        self._told, self.stdout, self.stderr = open(told), stdout, stderr  # noqa: SIM115 - `wait` closes it
        self.pid = int(self._told.readline())
        self.returncode: int | None = None

    def wait(self) -> int:
        """Its exit code once it has ended; -N where signal N ended it."""
        if self.returncode is None:
            with self._told:
                self.returncode = int(self._told.readline())
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """What it still says on stdout and stderr, once it has ended; "" of one that is no pipe."""
        said = ["", ""]

        def read(place: int, stream: IO[str] | None) -> None:
            if stream is not None:
                with stream:
                    said[place] = stream.read()

        beside = threading.Thread(target=read, args=(1, self.stderr))
        beside.start()
        read(0, self.stdout)
        beside.join()
        self.wait()
        return said[0], said[1]

    def send_signal(self, number: int) -> None:
        """To it alone."""
        os.kill(self.pid, number)


def started(
    *arguments: str,
    stdout: int = PIPE,
    stderr: int = PIPE,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    new_session: bool = False,
) -> Process:
    """`python ARGUMENTS` with nothing on its stdin; they are `-m MODULE ...`, `-c CODE ...` or `FILE ...`.

    A stream is PIPE or an open descriptor. Of the environment, what Python and torch read as they start is not looked at.
    """
    given, read = [os.open(os.devnull, os.O_RDONLY)], list[IO[str] | None]()
    for stream in (stdout, stderr):
        ours, theirs = os.pipe() if stream == PIPE else (None, os.dup(stream))
        given.append(theirs)
        read.append(None if ours is None else open(ours))  # noqa: SIM115 - whoever reads it closes it
    told = _begun(_server(), arguments, given, cwd=cwd or Path.cwd(), env=env or os.environ, new_session=new_session)
    for each in given:
        os.close(each)
    return Process(told, *read)


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """`started`, and what it said and how it ended."""
    process = started(*arguments, **options)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(arguments, process.wait(), stdout, stderr)


def for_sh() -> dict[str, Any]:
    """What `subprocess.run` is to be given, so that `python` and `truestep` in what sh runs are such processes, too."""
    number = _server().fileno()
    path = os.pathsep.join([_commands().name, os.environ["PATH"]])
    return {"env": {**os.environ, "PATH": path, _CHANNEL: str(number)}, "pass_fds": [number]}


@functools.cache
def _commands() -> TemporaryDirectory[str]:
    """A folder with `python` and `truestep`; it is gone when this process ends."""
    folder = TemporaryDirectory(prefix="ready-")
    atexit.register(folder.cleanup)
    code = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from tests.ready import _in_place_of; sys.exit(_in_place_of())"
    for name, words in (("python", ""), ("truestep", "-m truestep")):
        file = Path(folder.name, name)
        file.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-SIc", code])} {words} "$@"\n')
        file.chmod(0o700)
    return folder


def _in_place_of() -> int:
    """Begins a process with this one's streams, and ends as it does."""
    with socket.socket(fileno=int(os.environ[_CHANNEL])) as channel:
        told = _begun(channel, sys.argv[1:], [0, 1, 2], cwd=Path.cwd(), env=os.environ, new_session=False)
    code = Process(told, None, None).wait()
    return code if code >= 0 else 128 - code  # as a shell has it


def _begun(
    channel: socket.socket, arguments: Sequence[str], streams: list[int], *, cwd: Path, env: Mapping[str, str], new_session: bool
) -> int:
    """Where the number of the process is told that `arguments` are, and in the end its exit code."""
    told, tell = os.pipe()
    job = {"arguments": arguments, "folder": str(cwd), "environment": dict(env), "new_session": new_session}
    socket.send_fds(channel, [json.dumps(job).encode()], [*streams, tell])
    os.close(tell)
    return told


@functools.cache
def _server() -> socket.socket:
    """The way to this process's own server; a message is a job."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        server = subprocess.Popen([sys.executable, "-m", __name__, str(number)], cwd=_ROOT, pass_fds=[number])

    @atexit.register
    def end() -> None:
        ours.close()
        server.wait()

    return ours


def _asked_for(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """In a fork, what it is to be, and its streams; None where nobody is left to ask.

    Each fork is waited for by one in between, whose only purpose that is.
    """
    while True:
        message, descriptors, *_ = socket.recv_fds(channel, _MOST_BYTES, 4)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not message:
            return None
        if os.fork() == 0:
            *streams, tell = descriptors
            process = os.fork()
            if process == 0:
                os.close(tell)
                channel.close()
                return json.loads(message), streams
            for each in streams:
                os.close(each)
            os.write(tell, f"{process}\n".encode())
            os.write(tell, f"{os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])}\n".encode())
            os._exit(0)
        for each in descriptors:
            os.close(each)


def _go_on(job: dict[str, Any], streams: list[int]) -> None:
    """Be that process, to its end."""
    if job["new_session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the suite runs in the background
    for place, each in enumerate(streams):
        os.dup2(each, place)
        os.close(each)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.modules["torch"].seed()  # as torch and NumPy seed themselves where they are imported
    sys.modules["numpy"].random.seed()
    what, *others = job["arguments"]
    if what == "-c":
        sys.path[0], sys.argv = "", [what, *others[1:]]
        exec(compile(others[0], "<string>", "exec"), {"__name__": "__main__"})
    elif what == "-m":
        sys.path[0], sys.argv = os.getcwd(), others
        runpy.run_module(others[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0], sys.argv = str(Path(what).resolve().parent), [what, *others]
        runpy.run_path(what, run_name="__main__")


if __name__ == "__main__":
    import torch._dynamo  # noqa: F401 - what an optimizer imports

    import truestep.audit.process
    import truestep.compare
    import truestep.run  # noqa: F401
    from truestep.cli import commands

    commands()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when nobody is left to ask
    gc.freeze()  # what is collected in a fork would be copied for it first
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        asked = _asked_for(channel)
    if asked is not None:
        _go_on(*asked)
