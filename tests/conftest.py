"""What the report says above all tests: the profile, and the seed that draws the same programs again."""

from __future__ import annotations

import signal

from tests import profile


def pytest_report_header() -> str:
    return f"profile: {'full' if profile.FULL else 'quick'}, TRUESTEP_SEED={profile.seed()}"


def pytest_configure() -> None:
    profile.seed()  # before any worker starts, which inherits it
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # where the suite runs in the background, no test would hear Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
