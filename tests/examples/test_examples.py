"""Every example runs as its first lines say, in an empty folder, and says what it did; so does one on data of one's own."""

from __future__ import annotations

import os
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import ready

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
READS_WITH = {"image_folder": "PIL", "saved_dataset": "datasets"}
"""What an example reads with that is no part of truestep."""


def run(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return ready.run(*map(str, words), cwd=cwd, env=os.environ | {"HF_HOME": str(cwd / "cache")})


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_says_what_was_completed(example: Path, tmp_path: Path) -> None:
    package = READS_WITH.get(example.stem)
    if package is not None and find_spec(package) is None:
        pytest.skip(f"{package} is not installed: this example was not run")
    ended = run(example, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"\b[1-9]\d* completed", ended.stdout)
