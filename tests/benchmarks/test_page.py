"""The page of results comes from what was measured alone, and a part that fails does not end the others."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import machine, parts
from benchmarks.results import Measured, Part, page
from benchmarks.table import Aim, Table

TABLE = Table(
    title="A thing",
    how="How\nit is done.",
    columns=("what", "ms"),
    rows=(("one", "1.0"), ("two", "2.0")),
    aims=(Aim(text="below 2", met=False, found="two 2.0"),),
)


def measured(*found: Part) -> Measured:
    return Measured(before="0.1, 0.2, 0.3", after="1.1, 1.2, 1.3", parts=list(found))


def test_a_table_is_the_same_after_its_way_through_json() -> None:
    assert Table.read(json.loads(json.dumps(TABLE.record()))) == TABLE


def test_a_table_is_markdown_with_its_aims() -> None:
    text = TABLE.markdown()
    assert "| what | ms |\n| --- | --- |\n| one | 1.0 |\n| two | 2.0 |" in text
    assert "How it is done." in text
    assert "* Aim: below 2: **MISSED**; two 2.0." in text


def test_the_page_says_machine_versions_loads_verdicts_and_what_failed() -> None:
    good = Part(name="good", seconds=1.0, processor_seconds=0.5, tables=(TABLE,))
    bad = Part(name="bad", seconds=2.0, processor_seconds=0.1, failed="ModuleNotFoundError: No module named 'other'")
    text = page(measured(good, bad), quick=False)
    for said in (
        "0.1, 0.2, 0.3; after: 1.1, 1.2, 1.3",
        "torch 2",
        "in 3 s, 1 s",
        "| A thing | below 2 | **missed** |",
        "`make bench`",
    ):
        assert said in text
    assert "Not measured: ModuleNotFoundError: No module named 'other'" in text
    assert "too small" not in text
    assert "too small" in page(measured(good), quick=True)


def test_versions_tell_what_is_absent() -> None:
    assert machine.versions(("torch", "no-such-package")).endswith("no-such-package absent")


def test_a_part_that_fails_says_its_last_words_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parts, "ROOT", tmp_path)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "parts.py").write_text(
        "import json, pathlib, sys\n"
        "assert sys.argv[1] != 'tail', 'this one fails'\n"
        f"pathlib.Path(sys.argv[2]).write_text({json.dumps([TABLE.record()])!r})\n"
    )
    assert command.main(["--only", "tail", "update", "--out", str(tmp_path / "out.md")]) == 3
    text = (tmp_path / "out.md").read_text()
    assert "### tail\n\nNot measured: AssertionError: this one fails" in text
    assert "### A thing" in text
    assert "not measured: AssertionError" in capsys.readouterr().err


def test_a_part_that_hangs_is_ended_with_all_that_it_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = tmp_path / "started"
    hanging = (
        f"import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, file=open({str(started)!r}, 'w')); time.sleep(60)"
    )
    monkeypatch.setattr(parts, "MOST_SECONDS", 5)
    assert parts.ended([sys.executable, "-S", "-c", hanging], {}) == (1, "it was ended after 5 s")
    assert any(_is_over(started.read_text().strip()) or time.sleep(0.05) for _ in range(200)), "a killed process takes its leave"


def _is_over(process: str) -> bool:
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().split()[2] in "ZX"


def test_every_part_has_a_module_that_measures() -> None:
    for name in parts.PARTS | parts.GPU_PARTS:
        assert callable(parts.tables_of(name))
