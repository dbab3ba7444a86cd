"""Exports say what the records say, in forms that other programs read: RFC 4180, GitHub's Markdown, mlperf-logging."""

import csv
import io
import json
import re

import pytest

from tests.pages import made
from truestep.compare.exports import export
from truestep.compare.exports.markdown import markdown
from truestep.compare.exports.mllog import log
from truestep.compare.exports.runs_csv import COLUMNS, FORMULA, row, runs_csv
from truestep.compare.kept import read_protocol, read_records
from truestep.compare.verdict import summarize
from truestep.errors import FileError

HOSTILE = '=HYPERLINK("http://x"),\r\na | `b` <img> é \ud800'


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A folder of four candidates and seven seeds, one run diverged and one without the target; exported."""
    folder = made.comparison(tmp_path_factory.mktemp("exports"))
    exported(folder)
    return folder


def exported(folder):
    protocol, records = read_protocol(folder), read_records(folder)
    return export(folder, protocol, records, summarize(protocol, records))


def events(text):
    """The lines of a log as mlperf-logging reads them."""
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in text.splitlines()]


def by_key(text):
    """The last event of each key."""
    return {event["key"]: event for event in events(text)}


# runs.csv


def test_every_run_is_a_row_and_every_cell_the_records(out):
    text = (out / "runs.csv").read_bytes()
    assert text.count(b"\r\n") == text.count(b"\n") == 29  # no text of these runs holds a line's end
    header, *rows = csv.reader(io.StringIO(text.decode(), newline=""), strict=True)
    assert tuple(header) == COLUMNS
    records = read_records(out)
    for cells, record in zip(rows, records, strict=True):
        expected = row(record, direction="higher")
        assert tuple(expected) == COLUMNS
        assert cells == ["" if value is None else str(value) for value in expected.values()]
        assert expected["skipped"] + expected["completed"] == expected["attempts"] == record["counts"]["attempts"]
        assert expected["to_target_seconds"] == (record["to_target"] and record["to_target"]["seconds"])
        assert expected["best_validation_quality"] == max(each["quality"] for each in record["evaluations"])


def test_hostile_text_is_one_cell_that_no_spreadsheet_computes(out):
    record = read_records(out)[0] | {"detail": HOSTILE, "hint": "-2+3", "test_quality": -0.5}
    _, cells = csv.reader(io.StringIO(runs_csv([record], direction="higher").decode(), newline=""), strict=True)
    found = dict(zip(COLUMNS, cells, strict=True))
    assert found["detail"] == f"'{HOSTILE}".replace("\ud800", "?")
    assert found["hint"] == "'-2+3"
    assert float(found["test_quality"]) == -0.5
    assert not [cell for cell in cells if cell.startswith(FORMULA) and not re.fullmatch(r"-?[\d.]+", cell)]


def test_absent_is_an_empty_cell_and_not_finite_a_word(out):
    record = next(record for record in read_records(out) if record["to_target"] is None) | {"test_quality": "nan"}
    _, cells = csv.reader(io.StringIO(runs_csv([record], direction="higher").decode(), newline=""))
    found = dict(zip(COLUMNS, cells, strict=True))
    assert (found["to_target_seconds"], found["tokens_seen"], found["peak_memory_bytes"], found["test_quality"]) == (
        "",
        "",
        "",
        "nan",
    )


def test_what_is_known_of_a_runs_process_is_in_its_row(out):
    process = {"peak_memory_bytes": 5, "startup_seconds": 1.5, "wall_seconds": 9.0, "exit_code": None, "signal": "SIGSEGV"}
    found = row(read_records(out)[0] | {"process": process}, direction="higher")
    assert {name: found[name] for name in process} == process


# summary.md


def test_the_markdown_holds_the_tables_verdicts_and_limits(out):
    protocol = read_protocol(out)
    summary = summarize(protocol, read_records(out))
    text = markdown(protocol, summary)
    assert (out / "summary.md").read_text() == text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len(tables) == 2 * (2 + 4) + 2 + 3
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in tables[:6]}) == 1
    plain = re.sub(r"\\(.)", r"\1", text).splitlines()
    for one in summary.rows:
        assert one.against is None or " ".join(f"- {one.standing.candidate}: {one.against.text}".split()) in plain
    assert all(any(" ".join(note.text.split()) in line for line in plain) for note in summary.notes)
    assert protocol.hash in text


def test_words_of_a_task_break_no_table(tmp_path):
    task = "a|b.py:<b>*X*</b>"
    out = made.comparison(tmp_path, attempts=120, candidates=("fp32", "bf16"), seeds=(0,), task=task, quality="a|b\n<i>")
    protocol = read_protocol(out)
    first, *_ = markdown(protocol, summarize(protocol, read_records(out))).splitlines()
    assert first.startswith(r"a\|b.py:\<b\>\*X\*\</b\>: a\|b \<i\> of at least 0.95")


# mllog


def test_time_between_start_and_stop_is_the_time_to_target_or_what_the_run_spent(out):
    protocol = read_protocol(out)
    for record in read_records(out):
        found = by_key(log(protocol, record, begun=None))
        took = found["run_stop"]["time_ms"] - found["run_start"]["time_ms"]
        target, clocks = record["to_target"], record["clocks"]
        seconds = clocks["train"] + clocks["waste"] if target is None else target["seconds"]
        assert took == pytest.approx(1000 * seconds, abs=1.01)  # two readings, each rounded to a millisecond
        assert found["run_stop"]["metadata"]["status"] == ("aborted" if target is None else "success")
        assert found["truestep_seconds_to_target"]["value"] == (target and target["seconds"])
        qualities = [event for event in events(log(protocol, record, begun=None)) if event["key"] == "eval_accuracy"]
        last = record["evaluations"][-1]["examples"] if target is None else target["examples"]
        assert qualities[-1]["metadata"]["samples_count"] == last
        assert [event["value"] for event in qualities] == [each["quality"] for each in record["evaluations"]][: len(qualities)]


def test_times_never_run_backwards_and_the_run_starts_where_its_ledger_does_with_init_before(out):
    protocol, record = read_protocol(out), read_records(out)[0]
    text = log(protocol, record, begun="2026-11-30T04:00:00+00:00")
    times = [event["time_ms"] for event in events(text)]
    assert times == sorted(times)
    assert by_key(text)["run_start"]["time_ms"] == 1000 * 1_796_011_200
    init = record["clocks"]["init"]
    assert init > 0.001
    assert times[0] == by_key(text)["init_start"]["time_ms"] == round(1000 * (1_796_011_200 - init))


def test_no_log_calls_itself_a_result_of_mlperf(out):
    logs = sorted((out / "mllog").glob("*.log"))
    assert len(logs) == 28
    for path in logs:
        keys = [event["key"] for event in events(path.read_text())]
        assert not [key for key in keys if key.startswith("submission")]
        assert "no MLPerf result" in by_key(path.read_text())["truestep_kind"]["value"]


def test_mlperf_loggings_checker_accepts_each_log_by_our_rules_and_no_spoilt_one(out, tmp_path, monkeypatch):
    checker = pytest.importorskip(
        "mlperf_logging.compliance_checker.mlp_compliance", reason="mlperf-logging is not installed: its checker was not run"
    )
    monkeypatch.chdir(tmp_path)

    def accepts(path):
        made_now = checker.make_checker("training", "6.1.0", False, True)
        return checker.main(str(path), str(out / "mllog" / "rules.yaml"), made_now)[0]

    logs = sorted((out / "mllog").glob("*.log"))
    assert all(map(accepts, logs))
    good = logs[0].read_text()
    for spoil in (
        lambda text: text.replace('"key": "seed"', '"key": "sead"'),
        lambda text: text.replace('"key": "truestep_kind"', '"key": "submission_benchmark"'),
        lambda text: text.replace('"key": "truestep_target", "value": 0.95', '"key": "truestep_target", "value": 0.99'),
        lambda text: "".join(line for line in text.splitlines(keepends=True) if "run_stop" not in line),
        lambda text: text.replace('"key": "truestep_skipped", "value": 0', '"key": "truestep_skipped", "value": 1'),
    ):
        spoilt = tmp_path / "spoilt.log"
        spoilt.write_text(spoil(good))
        assert spoilt.read_text() != good
        assert not accepts(spoilt)


def test_a_run_that_died_before_its_first_evaluation_is_a_log_too(out, tmp_path, ran, declare):
    protocol = declare()
    record = ran(protocol, "fp16", 3, status="crashed", evaluations=[], ledger=None)
    found = by_key(log(protocol, record, begun=None))
    assert "eval_accuracy" not in found
    assert found["init_start"]["time_ms"] == 0
    assert found["truestep_status"]["value"] == "crashed"
    assert found["truestep_detail"]["value"] == record["detail"]


# files


def test_exports_that_cannot_be_written_are_an_error_and_the_records_stay(tmp_path):
    out = made.comparison(tmp_path, attempts=120, candidates=("fp32",), seeds=(0,))
    (out / "mllog").write_text("in the way")
    before = (out / "records.jsonl").read_bytes()
    with pytest.raises(FileError, match="mllog") as caught:
        exported(out)
    assert caught.value.path.startswith(str(out))
    assert (out / "records.jsonl").read_bytes() == before
