"""`truestep report` builds again what compare wrote, sets two comparisons side by side, and refuses what does not belong."""

import json
import platform
import shutil

import pytest

from tests.pages import made
from tests.pages.reading_html import parsed
from truestep.cli import main
from truestep.compare.between import MAY_DIFFER, between
from truestep.compare.exports.markdown import markdown
from truestep.compare.folder import Folder
from truestep.compare.kept import read_protocol, read_records
from truestep.compare.protocol import Protocol
from truestep.compare.verdict import summarize
from truestep.errors import ProtocolError
from truestep.pages.comparison import write
from truestep.pages.words import TIMES

OTHER_MACHINE = {"device": "cpu, another", "versions": {"python": "3.13.0", "torch": "2.13.0", "truestep": "0.1.0"}, "threads": 1}


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """Three candidates, four seeds; nobody writes into it."""
    out = tmp_path_factory.mktemp("sides") / "left"
    return made.comparison(out, attempts=300, candidates=("fp32", "bf16", "fp16"), seeds=(0, 1, 2, 3))


@pytest.fixture(scope="module")
def right(left):
    """The same on another machine, a seed fewer, one candidate exchanged for another, and everything half as long."""
    out = left.parent / "right"
    candidates = ("fp32", "bf16", "fp16 scale=static:1024")
    made.comparison(out, attempts=300, candidates=candidates, seeds=(0, 1, 2), **OTHER_MACHINE)
    records = made.records_of(out)
    for record in records:
        record["clocks"]["train"] /= 2
        if record["to_target"]:
            record["to_target"]["seconds"] /= 2
    made.write_records(out, records)
    return out


@pytest.fixture
def folder(left, tmp_path):
    """A copy to be changed."""
    return shutil.copytree(left, tmp_path / "copy")


def judged(folder):
    protocol, records = read_protocol(folder), read_records(folder)
    return protocol, records, summarize(protocol, records)


# one comparison


def test_what_is_built_again_equals_what_compare_wrote(folder, capsys):
    protocol, records, summary = judged(folder)
    Folder(path=folder, protocol=protocol, records=records).write_summary(summary)  # as cli/compare does it
    page = write(folder).read_bytes()
    kept = {name: (folder / name).read_bytes() for name in ("summary.json", "records.jsonl", "protocol.json")}
    for name in ("summary.json", "report.html"):
        (folder / name).unlink()
    assert main(["report", str(folder)]) == 0
    assert (folder / "report.html").read_bytes() == page
    assert {name: (folder / name).read_bytes() for name in kept} == kept
    assert len(list((folder / "mllog").glob("*.log"))) == len(records) == 12
    said = capsys.readouterr().out
    assert f"report    {folder / 'report.html'}\nprotocol  {protocol.hash}\n" in said
    assert all(f"{row.standing.candidate}: {row.against.text}" in said for row in summary.rows if row.against)


def test_an_unfinished_comparison_and_a_torn_record_have_a_report(folder, capsys):
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    torn = "".join(lines[:5]) + lines[5][:100]
    (folder / "records.jsonl").write_text(torn)
    (folder / "summary.json").unlink()
    assert main(["report", str(folder)]) == 0
    assert "5 of 12 runs are done" in capsys.readouterr().out
    assert len(parsed(folder / "report.html").all("li", **{"class": "run"})) == 5
    assert (folder / "records.jsonl").read_text() == torn, "the report mends nothing"


def test_a_comparison_without_a_run_has_a_report(folder):
    (folder / "records.jsonl").unlink()
    assert main(["report", str(folder)]) == 0
    assert "No run has ended yet." in parsed(folder / "report.html").one("main").text


def test_markdown_is_printed_and_nothing_written(folder, capsys):
    before = sorted(path.name for path in folder.rglob("*"))
    assert main(["report", str(folder), "--markdown"]) == 0
    protocol, _, summary = judged(folder)
    assert capsys.readouterr().out == markdown(protocol, summary)
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_json_is_one_document_with_all_records_and_what_was_written(folder, capsys):
    assert main(["report", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["runs"] == made.records_of(folder)
    assert document["summary"] == json.loads((folder / "summary.json").read_text())
    assert str(folder / "runs.csv") in document["written"]


@pytest.mark.parametrize(("condition", "code"), [("skip-rate>0%", 1), ("skip-rate>100%", 0)])
@pytest.mark.parametrize("form", [[], ["--json"], ["--markdown"]])
def test_a_declared_condition_that_holds_fails_the_report_as_it_failed_the_comparison(tmp_path, condition, code, form, capsys):
    out = made.comparison(tmp_path / "out", attempts=300, candidates=("fp32", "fp16"), seeds=(0, 1), fail_if=(condition,))
    assert main(["report", str(out), *form]) == code
    said = capsys.readouterr().out
    if form == ["--json"]:
        assert json.loads(said)["exit_code"] == code
    assert (f"Failed: --fail-if {condition}: fp16, " in said) is (code == 1 and form == [])


def spoilt_ledger(folder):
    ledger = folder / "ledgers" / "fp32-seed0.jsonl"
    ledger.write_text(ledger.read_text().replace(read_protocol(folder).hash, "0" * 64))
    return "fp32-seed0.jsonl"


def spoilt_record(folder):
    with (folder / "records.jsonl").open("a") as file:
        file.write("[]\n")
    return "records.jsonl, line 13"


def foreign_protocol(folder):
    (folder / "protocol.json").write_text("{}")
    return "a protocol of schema None"


def no_protocol(folder):
    (folder / "protocol.json").unlink()
    return "there is no"


def changed_protocol(folder):
    protocol = json.loads((folder / "protocol.json").read_text()) | {"target": 0.5}
    (folder / "protocol.json").write_text(json.dumps(protocol))
    return "belongs to another protocol"


@pytest.mark.parametrize("spoil", [spoilt_ledger, spoilt_record, foreign_protocol, no_protocol, changed_protocol])
def test_what_does_not_belong_is_refused_by_name_and_the_old_files_stay(folder, spoil, capsys):
    assert main(["report", str(folder)]) == 0
    name = spoil(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["report", str(folder)]) == 3
    said = capsys.readouterr().err
    assert name in said
    assert "hint: " in said
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


# two


def test_two_are_set_side_by_side_with_each_shared_candidates_ratio(left, right, tmp_path, capsys):
    out = tmp_path / "two.html"
    before = {path: path.read_bytes() for side in (left, right) for path in side.rglob("*") if path.is_file()}
    assert main(["report", str(left), str(right), "--out", str(out)]) == 0
    page = parsed(out)
    found = page.json("between-json")
    assert found["candidates"] == ["fp32", "bf16"]
    assert found["pairs"] == {"fp32": 3, "bf16": 3}
    for name in found["candidates"]:
        assert found["ratios"][name]["seconds"]["speedup"] == pytest.approx(2.0, rel=1e-12)  # made half as long
        assert found["ratios"][name]["examples"]["speedup"] == 1
        assert [seed["seed"] for seed in found["ratios"][name]["seconds"]["seeds"]] == [0, 1, 2]
    assert f"bf16: A takes 2.00{TIMES} the seconds of B to the target (2.00)." in capsys.readouterr().out
    text = page.one("main").text
    assert "Raced in A alone, and not shown: fp16." in text
    assert "Raced in B alone, and not shown: fp16 scale=static:1024." in text
    for side, name in ((left, "a"), (right, "b")):
        assert page.json(f"records-{name}-json") == made.records_of(side)
        assert page.json(f"protocol-{name}-json") == json.loads((side / "protocol.json").read_text())
    assert {path: path.read_bytes() for side in (left, right) for path in side.rglob("*") if path.is_file()} == before


def test_what_differs_is_shown_with_both_values(left, right, tmp_path):
    out = tmp_path / "two.html"
    assert main(["report", str(left), str(right), "--out", str(out)]) == 0
    page = parsed(out)
    start = next(k for k, element in enumerate(page.elements) if element.attributes.get("id") == "differences")
    end = next(k for k, element in enumerate(page.elements) if element.attributes.get("id") == "results")
    cells = [element.text.strip() for element in page.elements[start:end] if element.tag in ("th", "td")]
    rows = {cells[k]: cells[k + 1 : k + 3] for k in range(0, len(cells), 3)}
    assert rows.pop("protocol's SHA\N{NON-BREAKING HYPHEN}256") == [f"{read_protocol(side).hash[:12]}…" for side in (left, right)]
    assert rows == {
        "field": ["A", "B"],
        "seeds": ["0, 1, 2, 3", "0, 1, 2"],
        "candidates": ["fp32, bf16, fp16", "fp32, bf16, fp16 scale=static:1024"],
        "threads": ["2", "1"],
        "device": ["cpu, AMD EPYC 9B14", "cpu, another"],
        "versions": ["python: 3.12.3, torch: 2.14.1, truestep: 0.1.0", "python: 3.13.0, torch: 2.13.0, truestep: 0.1.0"],
    }


def test_a_comparison_beside_itself_differs_in_nothing_and_every_ratio_is_one(left, tmp_path, capsys):
    out = tmp_path / "two.html"
    assert main(["report", str(left), str(left), "--out", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["between"]["differences"] == []
    speedups = [ratio["speedup"] for found in document["between"]["ratios"].values() for ratio in found.values()]
    assert speedups == [1.0] * 9
    assert "Nothing: the protocols are the same" in parsed(out).one("section", id="differences").text


ASKED = {
    "task": "digits_conv",
    "data_digest": "0" * 64,
    "code_digest": "1" * 64,
    "target": 0.9,
    "quality": "loss",
    "direction": "lower",
    "optimizer": "SGD(lr=0.1)",
    "evaluation": "bf16",
    "evaluate_every": 64,
    "microbatches": 8,
    "budget_attempts": 10,
    "margin_quality": 0.5,
    "stop_at_target": True,
}


@pytest.mark.parametrize(("field", "value"), ASKED.items())
def test_what_was_asked_must_be_the_same_and_is_refused_by_its_name_with_both_values(field, value):
    ours, theirs = made.protocol(), made.protocol(**{field: value})
    with pytest.raises(ProtocolError, match=field.replace("_", " ")) as caught:
        between((ours, []), (theirs, []))
    assert caught.value.field == field
    assert json.dumps(value).strip('"') == caught.value.right
    assert json.dumps(getattr(ours, field)).strip('"') == caught.value.left


def test_another_baseline_is_refused():
    with pytest.raises(ProtocolError, match="baseline") as caught:
        between((made.protocol(candidates=("fp32", "bf16")), []), (made.protocol(candidates=("bf16", "fp32")), []))
    assert (caught.value.left, caught.value.right) == ("fp32", "bf16")


def test_all_that_may_differ_are_fields_of_a_protocol():
    assert set(MAY_DIFFER) <= set(Protocol.__dataclass_fields__)


def test_weights_of_seeds_that_one_side_lacks_are_no_difference():
    weights = made.protocol().initial_weights
    few = {seed: weights[seed] for seed in ("0", "1")}
    found = between((made.protocol(), []), (made.protocol(seeds=(0, 1), initial_weights=few), []))
    assert [one.field for one in found.differences] == ["seeds"]
    found = between((made.protocol(), []), (made.protocol(initial_weights=weights | {"1": "f" * 64}), []))
    assert [one.field for one in found.differences] == ["initial_weights"]


def test_two_that_asked_something_else_are_refused_on_the_command_line(left, tmp_path, capsys):
    other = made.comparison(tmp_path / "other", attempts=120, candidates=("fp32",), seeds=(0,), target=0.9)
    assert main(["report", str(left), str(other), "--out", str(tmp_path / "two.html")]) == 2
    said = capsys.readouterr().err
    assert "field: target   left: 0.95   right: 0.9" in said
    assert not (tmp_path / "two.html").exists()


# words on the line


@pytest.mark.parametrize(
    "words",
    [
        ["a", "b", "c"],
        ["a", "--out", "x.html"],
        ["a", "b", "--markdown"],
        ["a", "--markdown", "--json"],
    ],
)
def test_a_line_without_sense_is_a_usage_error_before_anything_is_read(words, capsys):
    assert main(["report", *words]) == 2
    assert "hint: " in capsys.readouterr().err


@pytest.mark.skipif(platform.system() == "Windows", reason="Windows has no such modes")
def test_a_page_of_two_that_cannot_be_written_is_told(left, tmp_path, capsys):
    assert main(["report", str(left), str(left), "--out", str(tmp_path / "missing" / "two.html")]) == 3
    assert "cannot write" in capsys.readouterr().err
