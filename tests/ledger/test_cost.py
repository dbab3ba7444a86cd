"""A ledger of a million attempts costs no more memory than one of a few thousand, to write as to read."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.ledger_cost import measure

ROOT = Path(__file__).parents[2]
GROWTHS = ("write_growth", "summarize_growth")
MILLION = """
import json, pathlib, sys
from benchmarks.ledger_cost import measure
print(json.dumps(measure(pathlib.Path(sys.argv[1]), 1_000_000)))
"""


def test_twenty_thousand_attempts_are_written_and_summed_up_in_the_memory_of_two_hundred(tmp_path: Path) -> None:
    found = measure(tmp_path / "run.jsonl", 20_000, memory=sys.getallocatedblocks)
    # were one object kept for ten attempts, 1,980 more would be there at the end than after the first hundredth; the garbage
    # collector lets up to 700 wait
    assert max(found[part] for part in GROWTHS) < 1_980, found


@pytest.mark.skipif(os.environ.get("TRUESTEP_FULL") != "1", reason="a million attempts take minutes; TRUESTEP_FULL=1 runs them")
def test_a_million_attempts_are_written_and_summed_up_in_the_memory_of_ten_thousand(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MILLION, str(tmp_path / "run.jsonl")]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    # the least that anything kept for each of the 990,000 attempts takes is a reference of 8 bytes
    assert max(found[part] for part in GROWTHS) < 990_000 * 8, found
