"""A process that is not to outlive the one that started it."""

from __future__ import annotations

import signal
import sys


def end_with_parent() -> None:
    """On Linux, this process is killed once the thread that started it has ended, whatever it is doing then; elsewhere nothing.

    Called first thing: of a parent that has ended before, nobody hears.
    """
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415  # elsewhere it is not needed

        set_signal_of_parents_death = 1
        ctypes.CDLL(None).prctl(set_signal_of_parents_death, signal.SIGKILL)
