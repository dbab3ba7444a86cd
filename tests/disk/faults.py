"""Deaths and errors at chosen system calls: what disk/ asks of the system goes through these functions of `os`."""

import errno
import os
import signal
import traceback
import warnings
from contextlib import contextmanager, suppress

CALLS = ("mkdir", "open", "write", "lseek", "fsync", "close", "replace", "unlink")


@contextmanager
def intercepted(fault):
    """Inside, fault(number, name, call, *args) is asked to make each call, numbered from 1; `call()` makes it.

    Yields the names of the calls so far.
    """
    real, asked_for = {name: getattr(os, name) for name in CALLS}, []

    def asking(name):
        def asked(*args, **kwargs):
            if getattr(os, name) is not asked:  # kept beyond the block, by a finalizer
                return real[name](*args, **kwargs)
            asked_for.append(name)
            return fault(len(asked_for), name, lambda *other: real[name](*(other or args), **kwargs), *args)

        return asked

    try:
        for name in CALLS:
            setattr(os, name, asking(name))
        yield asked_for
    finally:
        for name, function in real.items():
            setattr(os, name, function)


def traced(log):
    """A fault that only writes down (name, first argument)."""

    def fault(_, name, call, *args):
        log.append((name, args[0]))
        return call()

    return fault


def killed(at, when):
    """The process dies by SIGKILL "before" or "after" call number `at`, or "within" it, a write of which half was made."""

    def fault(number, name, call, *args):
        if number != at:
            return call()
        if when == "after":
            with suppress(OSError):
                call()
        elif when == "within" and name == "write":
            call(args[0], args[1][: len(args[1]) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    return fault


def failing(at, code):
    """Call number `at` fails, unless the process has to go on with what it did: a file is closed all the same."""

    def fault(number, name, call, *args):
        if number != at:
            return call()
        if name == "close":
            call()
        if name == "write":
            call(args[0], args[1][: len(args[1]) // 2])
        raise OSError(code, os.strerror(code))

    return fault


def short(_, name, call, *args):
    """A system that writes no more than 100 bytes at once."""
    return call(args[0], args[1][:100]) if name == "write" else call()


def errors_of(do, code, kind=OSError, *, prepare=lambda: None):
    """The error of `do(prepare())` with the first call of `do` failing, then the second, and so on; None where it copes."""
    at = 1
    while True:
        error, prepared = None, prepare()
        with intercepted(failing(at, code)) as calls:
            try:
                do(prepared)
            except kind as caught:
                error = caught
        if len(calls) < at:
            return
        yield error
        at += 1


def in_child(do):
    """How a forked process that does `do()` ended: its exit code, negative for a signal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads; this one only writes
        child = os.fork()
    if child == 0:
        try:
            do()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


ERRORS = (errno.ENOSPC, errno.EIO)
