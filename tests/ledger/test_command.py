"""truestep ledger prints what a ledger adds up to."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from truestep.cli.ledger import Command
from truestep.engine.outcome import Outcome, Reason
from truestep.errors import UsageError
from truestep.ledger import read, summarize

Attempts = Callable[..., list[Outcome]]
Write = Callable[..., Path]


def test_the_throughput_and_the_skip_rate_share_a_line(
    write: Write, make_attempts: Attempts, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(make_attempts([None, None, None, Reason.BACKWARD]))
    assert Command(file=path).run() == 0
    lines = capsys.readouterr().out.splitlines()
    place = lines.index("attempts    4 = 3 completed + 1 skipped")
    assert lines[place + 1] == "            1 backward overflow"
    assert "examples    32 seen, 24 applied" in lines
    assert "tokens      40 seen, 30 applied" in lines
    assert "ticks       3 of the scheduler" in lines
    assert "loss scale  2 to 16" in lines
    assert "throughput  12 examples/s applied, 15 tokens/s applied; 25\u00a0% of attempts skipped" in lines
    assert not [line for line in lines if line.startswith(("stages", "waste", "missing"))]


def test_a_large_rate_is_written_out(write: Write, make_attempts: Attempts, capsys: pytest.CaptureFixture[str]) -> None:
    fast = [replace(outcome, seconds=1 / 2048) for outcome in make_attempts([None, None], tokens=None)]
    Command(file=write(fast)).run()
    assert "throughput  16,384 examples/s applied; 0\u00a0% of attempts skipped" in capsys.readouterr().out.splitlines()


def test_waste_and_missing_lines_are_told(write: Write, make_attempts: Attempts, capsys: pytest.CaptureFixture[str]) -> None:
    first = make_attempts([None] * 5, tokens=None)
    path = write(first[1:])
    write(make_attempts([None], after=first[2].counts, tokens=None), resume=True)
    Command(file=path).run()
    lines = capsys.readouterr().out.splitlines()
    assert "tokens      not counted" in lines
    assert "throughput  not measured; 0\u00a0% of attempts skipped" in lines
    assert "waste       2 attempts rolled back, 16 examples, 1 s" in lines
    assert "missing     1 attempt without a line in this file" in lines


def test_what_the_stages_took_is_told_with_its_share(
    write: Write, make_attempts: Attempts, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = make_attempts([None, Reason.BACKWARD])
    first = replace(first, seconds_by_stage={"forward": 0.375, "apply": 0.125})
    second = replace(second, seconds_by_stage={"forward": 0.5, "explain": 0.0})
    Command(file=write([first, second])).run()
    lines = capsys.readouterr().out.replace("\u00a0", " ").splitlines()
    place = lines.index("stages      2 attempts timed, 1.00 s")
    assert lines[place - 1].startswith("throughput")
    assert lines[place + 1 :] == [
        "            forward 0.875 s, 87.5 %",
        "            apply 0.125 s, 12.5 %, in 1 attempt",
        "            explain 0 s, 0 %, in 1 attempt",
    ]


def test_stages_that_took_no_time_have_no_share(
    write: Write, make_attempts: Attempts, capsys: pytest.CaptureFixture[str]
) -> None:
    (attempt,) = make_attempts([None])
    Command(file=write([replace(attempt, seconds_by_stage={"forward": 0.0})])).run()
    assert "            forward 0\u00a0s, not measured" in capsys.readouterr().out.splitlines()


def test_a_ledger_without_an_attempt_says_so(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    Command(file=write([])).run()
    printed = capsys.readouterr().out
    assert "no attempt" in printed
    assert "loss scale  none used" in printed
    assert "throughput  not measured; no attempt" in printed


def test_a_loss_scale_that_never_moved_is_one_number(
    write: Write, make_attempts: Attempts, capsys: pytest.CaptureFixture[str]
) -> None:
    Command(file=write(make_attempts([None]))).run()
    assert "loss scale  2" in capsys.readouterr().out.splitlines()


def test_the_folder_of_a_run_stands_for_its_ledger_and_another_says_which_to_name(
    write: Write, make_attempts: Attempts, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run, comparison = tmp_path / "run", tmp_path / "comparison"
    (comparison / "ledgers").mkdir(parents=True)
    run.mkdir()
    with pytest.raises(UsageError, match=r"run is a folder without a ledger\.jsonl") as raised:
        Command(file=run).run()
    assert raised.value.hint == "name a ledger's file, or the folder of a run"
    written = write(make_attempts([None]))
    (run / "ledger.jsonl").write_bytes(written.read_bytes())
    Command(file=written).run()
    of_file = capsys.readouterr().out
    Command(file=run).run()
    assert capsys.readouterr().out == of_file
    (comparison / "ledgers" / "fp32-seed0.jsonl").write_bytes(written.read_bytes())
    with pytest.raises(UsageError) as raised:
        Command(file=comparison).run()
    assert str(raised.value.hint).endswith("comparison/ledgers/fp32-seed0.jsonl")


def test_json_is_one_document_equal_to_the_summary(
    write: Write, make_attempts: Attempts, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(make_attempts([None]))
    assert Command(file=path, json=True).run() == 0
    assert json.loads(capsys.readouterr().out) == summarize(read(path)).as_dict()
