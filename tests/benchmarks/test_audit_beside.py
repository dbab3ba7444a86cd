"""A way to run the script that notes no updates says why, whether it spoke or not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.audit_beside import cells, run


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("raise SystemExit(3)", "exit code 3, without a word"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exit code -9, without a word"),
        ("print('begins'); raise SystemExit('no trace was found')", "no trace was found"),
    ],
)
def test_a_program_that_notes_no_updates_has_its_last_words_or_its_exit_code(tmp_path: Path, program: str, why: str) -> None:
    row = run("TrainCheck", [sys.executable, "-S", "-c", program], tmp_path, 1, {})
    assert row.absent == why
    assert cells(row, alone=1.0)[1] == f"not measured: {why}"
