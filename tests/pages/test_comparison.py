"""The comparison's page says what its records say, asks nothing of the network, and refuses what does not belong together."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shlex
import statistics
from pathlib import Path
from typing import Any

import pytest
import tyro

from tests.pages import made
from tests.pages.reading_html import Page, parsed
from tests.profile import FULL
from truestep.cli.compare import Command
from truestep.compare.folder import read_protocol
from truestep.compare.protocol import Protocol
from truestep.compare.verdict import summarize
from truestep.errors import FileError, RecordError
from truestep.pages.comparison import figures, write
from truestep.pages.comparison.reading import Comparison, read
from truestep.pages.comparison.runs import command, runs
from truestep.pages.comparison.spending import memory_and_throughput
from truestep.pages.look.figure import Figure


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = made.comparison(tmp_path_factory.mktemp("comparison"))
    write(folder)
    return folder


@pytest.fixture(scope="module")
def page(out: Path) -> Page:
    return parsed(out / "report.html")


@pytest.fixture(scope="module")
def comparison(out: Path) -> Comparison:
    return read(out)


@pytest.fixture(scope="module")
def drawn(comparison: Comparison) -> dict[str, Figure]:
    return {figure.name: figure for figure in figures(comparison)}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A folder of two candidates and two seeds, to be spoilt."""
    return made.comparison(tmp_path / "out", attempts=300, candidates=("fp32", "fp16"), seeds=(0, 1))


def rewritten(out: Path, **changes: Any) -> None:
    """Change fields of the first record, on disk, and summarize again."""
    records = made.records_of(out)
    records[0] |= changes
    made.write_records(out, records)


# what the page says


def test_the_page_is_whole_html_in_one_file_with_plotly_in_it_once(out: Path, page: Page) -> None:
    text = (out / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert text.count("* plotly.js (") == 1
    assert [element.tag for element in page.elements if element.tag in ("html", "head", "body", "main", "h1")] == [
        "html",
        "head",
        "body",
        "main",
        "h1",
    ]
    assert sorted(path.name for path in out.iterdir()) == [
        "ledgers",
        "protocol.json",
        "records.jsonl",
        "report.html",
        "summary.json",
    ]


def test_nothing_on_the_page_is_fetched(page: Page) -> None:
    fetching = ("src", "srcset", "href", "xlink:href", "poster", "data", "action", "formaction", "background")
    addresses = [element.attributes[name] for element in page.elements for name in fetching if name in element.attributes]
    assert addresses
    assert all(address is not None and address.startswith(("#", "data:")) for address in addresses)
    styles = [element.text for element in page.all("style")]
    styles += [element.attributes["style"] or "" for element in page.elements if "style" in element.attributes]
    assert not any(re.search(r"url\(|@import", style) for style in styles)
    policy = page.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy


def test_the_embedded_json_is_the_records(out: Path, page: Page) -> None:
    assert page.json("records-json") == made.records_of(out)
    assert page.json("protocol-json") == json.loads((out / "protocol.json").read_text())
    assert page.json("summary-json") == json.loads((out / "summary.json").read_text())


def test_every_number_of_the_table_is_one_of_the_summary(out: Path, page: Page) -> None:
    candidates = json.loads((out / "summary.json").read_text())["candidates"]
    table = next(k for k, element in enumerate(page.elements) if element.attributes.get("class") == "cards")
    end = next(k for k in range(table + 1, len(page.elements)) if page.elements[k].tag == "table")
    shown = [element for element in page.elements[table:end] if element.tag == "data"]
    expected: list[float] = []
    for one in candidates:
        failures = [runs for status, runs in one["statuses"].items() if status != "reached"]
        expected += [one["reached"], *failures]
        for clock in ("seconds", "examples"):
            estimate = one["estimates"][clock]
            expected += [estimate["restricted_mean"], estimate["ert"], estimate["median"]]
        ratios = one["against"]["ratios"] if one["against"] else {}
        for clock in ("seconds", "examples") if ratios else ():
            p = ratios[clock]["p_adjusted"]
            expected += [ratios[clock]["speedup"]]
            if not (clock == "seconds" and one["emulated"]):  # no p-value stands beside seconds that say nothing
                expected += [ratios[clock]["p"] if p is None else p]
        expected += [ratios["completed"]["speedup"]] if ratios else []
        expected += [one["quality"]] + [one["quality_runs"]] * (one["quality_runs"] < one["runs"])
        expected += [one["skip_rate"], one["skipped"], one["examples_per_second"]]
    assert [float(element.attributes["value"] or "") for element in shown] == expected
    for element, value in zip(shown, expected, strict=True):
        number = re.search(r"\d[\d,]*(\.\d+)?(e-\d+)?", element.text)
        assert number is not None, element
        said = float(number[0].replace(",", "")) / (100 if "%" in element.text else 1)
        assert said == pytest.approx(value, rel=0.005)  # half a unit of the third significant digit is 1 in 200


def test_the_numbers_of_the_table_follow_from_the_records_in_the_page(page: Page) -> None:
    records, protocol = page.json("records-json"), page.json("protocol-json")
    budget = {"seconds": protocol["budget_seconds"], "examples": protocol["budget_attempts"] * protocol["batch"]}
    own = {name: [record for record in records if record["candidate"] == name] for name in protocol["candidates"]}

    def times(name: str, clock: str) -> list[float]:
        return [record["to_target"][clock] if record["to_target"] else math.inf for record in own[name]]

    def values(name: str, column: str) -> list[float]:
        row = [*own].index(name)
        start = [k for k, element in enumerate(page.elements) if element.attributes.get("role") == "rowheader"][row]
        cell = next(k for k in range(start, len(page.elements)) if page.elements[k].attributes.get("data-label") == column)
        end = next(k for k in range(cell + 1, len(page.elements)) if page.elements[k].tag in ("td", "th", "section", "p"))
        return [float(element.attributes["value"] or "") for element in page.elements[cell:end] if element.tag == "data"]

    for name, ended in own.items():
        for clock, tau in budget.items():
            found = times(name, clock)
            cut = [min(time, tau) for time in found]
            reached = sum(math.isfinite(time) for time in found)
            expected = [statistics.fmean(cut), sum(cut) / reached, statistics.median(found)]
            assert values(name, f"{clock} to it") == pytest.approx(expected, rel=1e-9), (name, clock)
            assert values(name, "runs at the target")[0] == reached
            logs = [math.log(min(zero, tau) / one) for zero, one in zip(times("fp32", clock), cut, strict=True)]
            if name != "fp32":
                speedup = values(name, f"speedup in {clock}")[0]
                assert speedup == pytest.approx(math.exp(statistics.fmean(logs)), rel=1e-9), (name, clock)
        tested = [record["test_quality"] for record in ended if record["test_quality"] is not None]
        assert values(name, "final accuracy, test split")[0] == pytest.approx(statistics.fmean(tested), rel=1e-9)
        skipped = sum(sum(record["counts"]["skipped_by_reason"].values()) for record in ended)
        attempts = sum(record["counts"]["attempts"] for record in ended)
        assert values(name, "skipped, and throughput")[:2] == pytest.approx([skipped / attempts, skipped], rel=1e-9)


def test_the_baseline_comes_first_and_emulated_rows_say_so(page: Page) -> None:
    heads = [element.text.split() for element in page.all("th", role="rowheader")]
    assert heads == [
        ["fp32", "baseline"],
        ["bf16"],
        ["fp16", "emulated"],
        ["fp16", "scale=static:1024", "emulated"],
    ]


@pytest.mark.parametrize("status", ["diverged", "stalled", "out of memory", "timed out", "crashed", "error", "budget"])
def test_a_candidate_that_never_arrived_says_so_first_in_verdict_table_and_runs(small: Path, status: str) -> None:
    records = [
        record | ({"status": status, "to_target": None, "detail": "why it ended"} if record["candidate"] != "fp32" else {})
        for record in made.records_of(small)
    ]
    made.write_records(small, records)
    page = parsed(write(small))
    lost = sum(record["candidate"] != "fp32" for record in records)
    named = {"error": "ended by an error", "budget": "out of budget"}.get(status, status)
    verdict = page.one("section", id="verdicts").text
    assert f"Never reached the target: {lost} {named}." in verdict
    budget = page.json("summary-json")["candidates"][1]["estimates"]["examples"]["tau"]
    assert "with restarts it would never be there." in verdict
    assert f"Each is charged {budget:,.0f} examples" in verdict or "Each is charged 12.0" in verdict
    results = page.one("section", id="results").text
    assert f"{lost} {named}" in results
    assert "restarts: never" in results
    assert results.count("no interval: none arrived") == 2, "by seconds and by examples"
    ended = [element.text for element in page.all("p", **{"class": "failed"})]
    assert len(ended) == lost
    assert all("before it reached the target." in words for words in ended)


def ended_at_the_target(record: dict[str, Any]) -> dict[str, Any]:
    """The record of a run that stopped where it reached the target."""
    there = record["to_target"]
    counts = {"examples_seen": there["examples"], "examples_applied": there["examples"], "completed": there["completed"]}
    evaluations = [each for each in record["evaluations"] if each["examples"] <= there["examples"]]
    return record | {"counts": record["counts"] | counts, "evaluations": evaluations}


@pytest.fixture(params=[True, False], ids=["to the target", "to the end"])
def short(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[bool, Path]:
    """A folder whose second candidate missed the target with a high quality on test; whether runs ended at the target."""
    stops = request.param
    out = made.comparison(tmp_path, attempts=300, candidates=("fp32", "fp16"), seeds=(0, 1), stop_at_target=stops)
    lost = {"status": "budget", "to_target": None, "test_quality": 0.97}
    rising = [
        {"examples": n, "completed": n // 64, "quality": n / 20480, "train_seconds": n / 6400} for n in range(1280, 19201, 1280)
    ]
    made.write_records(
        out,
        [
            record | lost | {"evaluations": rising}
            if record["candidate"] == "fp16"
            else ended_at_the_target(record)
            if stops
            else record
            for record in made.records_of(out)
        ],
    )
    return stops, out


def test_why_the_final_quality_of_a_candidate_without_the_target_looks_harmless_is_told_from_the_records(
    short: tuple[bool, Path],
) -> None:
    stops, out = short
    said = parsed(write(out)).all("article")[0].text
    mine, theirs = ([r for r in made.records_of(out) if r["candidate"] == name] for name in ("fp16", "fp32"))
    there = statistics.median(record["to_target"]["examples"] for record in theirs)
    stood = sorted(max(each["quality"] for each in r["evaluations"] if each["examples"] <= there) for r in mine)  # they rise
    best = max(each["quality"] for record in mine for each in record["evaluations"])
    where = f"At {there:,.0f} examples, where fp32 had reached accuracy 0.95 (its median run), its own on validation was "
    assert where + " to ".join(dict.fromkeys(f"{each:.4f}" for each in stood)) in said
    assert f"the best on validation up to its last evaluation, after 19,200 examples, was {best:.4f}." in said
    length = statistics.fmean(record["counts"]["examples_seen"] for record in theirs)
    unequal = f"those without it have seen 19,200 examples, those of fp32 with it {length:,.0f}, on average."
    validation = statistics.fmean(record["evaluations"][-1]["quality"] for record in theirs)
    test = statistics.fmean(record["test_quality"] for record in theirs)
    splits = f"the weights with which fp32 reached it have {validation:.4f} there and {test:.4f} on the test split"
    assert (unequal in said, splits in said) == (stops, stops)
    assert said.index("Never reached") < said.index("No claim") < said.index("on validation was"), "the verdict comes first"


def test_of_validation_and_unequal_lengths_nothing_is_said_that_no_record_tells(short: tuple[bool, Path]) -> None:
    stops, out = short
    records = made.records_of(out)
    unread = {"evaluations": [], "counts": records[0]["counts"] | {"examples_seen": 64}}  # died at once
    made.write_records(out, [record | unread if record["candidate"] == "fp16" else record for record in records])
    said = parsed(write(out)).all("article")[0].text
    assert "its own on validation" not in said
    assert "those without it have seen" not in said
    assert "Nor can it" not in said, "with nothing before it"
    assert ("No final accuracy can be held against the target" in said) is stops
    made.write_records(out, [record | {"status": "budget", "to_target": None} for record in records])
    assert "its own on validation" not in parsed(write(out)).all("article")[0].text, "nor where the baseline never arrived"


def test_a_verdict_on_contended_seconds_says_so_itself(tmp_path: Path) -> None:
    out = made.comparison(tmp_path, attempts=300, candidates=("fp32", "bf16"))
    unsure = "The machine was contended, so the seconds are unsure."
    assert unsure not in parsed(write(out)).all("article")[0].text
    rewritten(out, cpu_seconds=0.1)
    verdict = parsed(write(out)).all("article")[0].text
    assert "Faster: " in verdict
    assert unsure in verdict


def test_no_p_value_stands_beside_emulated_seconds(page: Page) -> None:
    cells = page.all("td", **{"data-label": "speedup in seconds"})
    assert ["p withheld" in cell.text for cell in cells] == [False, False, True, True]


def test_against_an_emulated_baseline_no_time_is_judged_and_the_figure_of_pairs_says_so(tmp_path: Path) -> None:
    page = parsed(write(made.comparison(tmp_path, attempts=300, candidates=("fp16", "bf16"), seeds=(0, 1))))
    cells = page.all("td", **{"data-label": "speedup in seconds"})
    assert ["p withheld" in cell.text for cell in cells] == [False, True]
    assert "speedup over fp16 (emulated) in train seconds" in page.one("figure", id="paired-by-seconds").text


def test_a_throughput_stands_in_one_cell_with_its_skip_rate(page: Page) -> None:
    cells = page.all("td", **{"data-label": "skipped, and throughput"})
    assert len(cells) == 4
    assert all("examples/s" in cell.text and "%" in cell.text for cell in cells)


def test_the_baseline_again_has_a_row_and_a_verdict_and_no_place_in_the_title(tmp_path: Path) -> None:
    out = made.comparison(tmp_path, attempts=300, candidates=("fp32", "bf16", "fp32 again"), seeds=(0, 1))
    page = parsed(write(out))
    assert page.one("h1").text == "digits: bf16 against fp32"
    assert [head.text.split() for head in page.all("th", role="rowheader")][2] == ["fp32", "again", "the", "baseline", "again"]
    assert "noise floor" in page.all("article")[1].text
    assert "--candidates fp32 --seeds 1 " in page.all("li", **{"class": "run"})[2].text


def test_the_verdicts_are_the_summarys_words(out: Path, page: Page) -> None:
    candidates = json.loads((out / "summary.json").read_text())["candidates"]
    said = [re.sub(r"\s+", " ", article.text).lower() for article in page.all("article")]
    for one, words in zip(candidates[1:], said, strict=True):
        text = one["against"]["text"].replace("\u00a0", " ").lower()
        assert all(f"{part}." in words for part in text.split("; "))


def test_every_run_is_there_failed_ones_with_their_detail_and_each_with_a_command(out: Path, page: Page) -> None:
    runs = page.all("li", **{"class": "run"})
    records = made.records_of(out)
    assert len(runs) == len(records) == 28
    for run, record in zip(runs, records, strict=True):
        assert f"seed {record['seed']}" in run.text
        assert f"--seeds {record['seed'] + 1} " in run.text
        assert f"{record['counts']['attempts']} attempts" in run.text
    assert [run.text for run in runs if "Diverged after" in run.text and "the loss stayed non-finite" in run.text]
    assert len(page.all("p", **{"class": "failed"})) == 2


def test_hash_and_environment_are_on_the_page(out: Path, page: Page) -> None:
    assert page.one("p", **{"class": "hash"}).text == made.protocol().hash
    values = [element.text for element in page.all("dd")]
    assert made.ENVIRONMENT["platform"] in values
    assert page.json("protocol-json")["optimizer"] in values


def test_each_figure_is_named_described_and_has_its_numbers_as_a_table(out: Path, page: Page) -> None:
    drawings = [element for element in page.elements if "data-plot" in element.attributes]
    assert len(drawings) == 5 + 2 + 4 + 2 + 4  # one each; quality whole and near; loss, scale and norm one for each candidate
    for drawing in drawings:
        assert drawing.attributes["role"] == "img"
        assert len(drawing.attributes["aria-label"] or "") > 80
        assert page.json(drawing.attributes["data-plot"] or "")["data"]
    assert len(page.all("details", **{"class": "numbers"})) == len(page.all("figure")) == 9
    assert all(element.attributes["tabindex"] == "0" for element in page.all("div", **{"class": "scroll"}))


def test_no_candidate_is_told_by_colour_alone(page: Page) -> None:
    lines = [
        (trace["line"]["color"], trace["line"]["dash"], trace["marker"]["symbol"])
        for trace in page.json("plot-not-yet-by-seconds-1")["data"]
        if trace["mode"] == "lines+markers"
    ]
    assert len(lines) == 4
    for column in zip(*lines, strict=True):
        assert len(set(column)) == 4


def test_skipped_attempts_are_all_marked_in_loss_and_scale(out: Path, page: Page) -> None:
    skipped = sum(sum(record["counts"]["skipped_by_reason"].values()) for record in made.records_of(out))
    assert skipped > 100

    def marks(figure: str, panels: int, symbol: str) -> int:
        traces = [trace for k in range(panels) for trace in page.json(f"plot-{figure}-{k + 1}")["data"]]
        return sum(len(trace["x"]) for trace in traces if trace.get("marker", {}).get("symbol") == symbol)

    assert marks("loss", 4, "line-ns-open") == marks("gradient-norm", 4, "line-ns-open") == skipped
    assert marks("loss-scale", 2, "x-thin-open") == skipped


def test_the_share_not_yet_there_falls_by_one_seed_at_each_time_of_the_records(out: Path, page: Page) -> None:
    records = [record for record in made.records_of(out) if record["candidate"] == "fp16 scale=static:1024"]
    times = sorted(record["to_target"]["seconds"] for record in records if record["to_target"])
    (curve,) = (
        trace
        for trace in page.json("plot-not-yet-by-seconds-1")["data"]
        if trace["meta"]["slot"] == 3 and trace["mode"] == "lines+markers"
    )
    assert curve["x"][1:-1] == pytest.approx(times, rel=1e-5)  # six significant digits
    assert curve["y"] == pytest.approx([100 * k / 7 for k in (7, 6, 5, 4, 3, 2, 2)], rel=1e-5)


def test_pairs_multiply_to_the_summarys_speedup(comparison: Comparison, drawn: dict[str, Figure]) -> None:
    pairs = drawn["paired-by-seconds"]
    assert pairs.table is not None
    *seeds, mean = (row[1].value for row in pairs.table.rows)
    product = 1.0
    for speedup in seeds:
        assert speedup is not None
        product *= speedup
    assert mean == comparison.summary["candidates"][1]["against"]["ratios"]["seconds"]["speedup"]
    assert product ** (1 / 7) == pytest.approx(mean, rel=1e-12)  # both in float64; seven roundings each


def test_a_cut_pair_is_a_bound(drawn: dict[str, Figure]) -> None:
    pairs = drawn["paired-by-seconds"]
    assert pairs.table is not None
    words = {row[0].words: row[3].words for row in pairs.table.rows}
    assert words["seed 2"].startswith("at most ")
    assert words["seed 5"].startswith("at most ")
    assert not words["seed 0"].startswith("at most ")


def test_the_seconds_by_clock_are_the_summarys(comparison: Comparison, drawn: dict[str, Figure]) -> None:
    clocks = drawn["time-by-clock"]
    assert clocks.table is not None
    traces = clocks.panels[0].plot["data"]
    for row, trace, one in zip(clocks.table.rows, traces, comparison.summary["candidates"], strict=True):
        assert [cell.value for cell in row[1:]] == [*one["spent"].values(), one["cpu_share"]]
        means = [seconds / one["runs"] for clock, seconds in one["spent"].items() if clock in ("init", "train", "eval")]
        assert trace["x"] == trace["error_x"]["arrayminus"] == pytest.approx(means, rel=1e-5)  # six significant digits
    assert clocks.notes == ("No run spent anything on: checkpoint and waste.",)


PROCESS = {"peak_memory_bytes": 400 * 2**20, "signal": None, "earlier": []}


def test_memory_stands_beside_throughput_and_skip_rate(small: Path) -> None:
    before = parsed(write(small)).one("section", id="spending").text
    assert before.count("not measured") == 2  # the peak of either candidate: these runs had no process of their own
    first, *others = read(small).records
    tries = [{"status": "crashed", "detail": "ended by SIGSEGV", "total_seconds": 2.0}]
    highest = {**first, "process": PROCESS | {"peak_memory_bytes": 3 * 2**29, "signal": "SIGKILL", "earlier": tries}}
    records = (highest, *({**record, "process": PROCESS} for record in others))
    shown = dataclasses.replace(read(small), records=records)
    rows = memory_and_throughput(shown).rows
    for row, one in zip(rows, shown.summary["candidates"], strict=True):
        assert [cell.value for cell in row[1:3]] == [one["examples_per_second"], one["skip_rate"]]
    assert [row[3].value for row in rows] == [3 * 2**29, 400 * 2**20]
    assert len(memory_and_throughput(shown).columns) == 4, "no run of a processor has memory on a device"
    run = runs(shown)[0]
    assert "Peak memory: 1.50\u00a0GiB. Its process was ended by SIGKILL." in run.numbers
    assert run.earlier == ("crashed after 2.00\u00a0s, which are waste: ended by SIGSEGV",)


def test_memory_on_the_device_stands_beside_that_of_the_process_where_a_run_has_told_it(small: Path) -> None:
    fp32, *others = read(small).records
    on_device = {**fp32, "process": PROCESS | {"peak_device_bytes": 3 * 2**29}}
    shown = dataclasses.replace(read(small), records=(on_device, *({**other, "process": PROCESS} for other in others)))
    table = memory_and_throughput(shown)
    assert table.columns[-2:] == ("peak memory of a run's process", "peak memory on the device")
    assert [row[4].value for row in table.rows] == [3 * 2**29, None]
    assert [row[4].words for row in table.rows] == ["1.50\u00a0GiB", "not measured"]
    assert [cell.words for cell in table.rows[0][4].below] == ["the highest of 1 run, of 2"]
    assert "Peak memory: 400\u00a0MiB, and 1.50\u00a0GiB on the device." in runs(shown)[0].numbers
    assert "on the device" not in runs(shown)[1].numbers


NO_PART_OF_A_RUN = ("jobs", "fail_if", "pilot")
"""Options of a whole comparison: how it is arranged, what it fails by, and what has set its target, in the command a number."""


def command_of(line: str) -> Command:
    """The options that a run's command gives."""
    words = shlex.split(line)
    assert words[:2] == ["truestep", "compare"]
    return tyro.cli(Command, args=words[2:], config=(tyro.conf.FlagCreatePairsOff,))


def test_the_command_of_a_run_asks_for_all_that_its_protocol_holds(tmp_path: Path) -> None:
    far_from_defaults = {
        "evaluate_every": 96,
        "margin_examples": 0.07,
        "margin_quality": 0.02,
        "alpha": 0.04,
        "threads": 3,
        "timeout_seconds": 77.0,
        "budget_seconds": 55.0,
        "stop_at_target": False,
        "fail_if": ("quality",),
    }
    out = made.comparison(tmp_path, attempts=120, candidates=("fp32", "bf16"), seeds=(0, 1), **far_from_defaults)
    comparison = read(out)
    options = {field.name: field.name for field in dataclasses.fields(Command)} | {"timeout_seconds": "timeout"}
    held = [field.name for field in dataclasses.fields(Protocol) if field.name in options and field.name not in NO_PART_OF_A_RUN]
    assert {"target", "timeout_seconds", *far_from_defaults} - {"stop_at_target", "fail_if"} <= {*held}
    for run, record in zip(runs(comparison), comparison.records, strict=True):
        asked = command_of(run.command)
        for name in {*held} - {"candidates", "seeds"}:
            assert getattr(asked, options[name]) == comparison.protocol[name], name
        assert (asked.candidates, asked.seeds) == ((record["candidate"],), record["seed"] + 1)
        assert asked.to_the_end is not comparison.protocol["stop_at_target"]
        assert (asked.fail_if, asked.pilot, asked.jobs) == ((), None, 1)


@pytest.mark.parametrize(
    ("declared", "left_out"),
    [
        ({}, ""),
        ({"jobs": 3}, " Left out, as no part of a run: --jobs 3."),
        (
            {"jobs": 2, "fail_if": ("quality",), "pilot": {"median": 0.96, "slack": 0.01}},
            " Left out, as no part of a run: --jobs 2, --fail-if and --pilot, whose target stands in the command as a number.",
        ),
    ],
)
def test_what_the_commands_of_the_runs_do_and_leave_out_is_said_above_them(
    tmp_path: Path, declared: dict[str, Any], left_out: str
) -> None:
    page = parsed(write(made.comparison(tmp_path, attempts=30, candidates=("fp32",), seeds=(0,), **declared)))
    (said,) = (element.text for element in page.all("p", **{"class": "note"}) if element.text.startswith("Run it again"))
    assert said.endswith(f" It sets everything that made the run.{left_out}")


@pytest.mark.parametrize(
    ("baseline", "name", "wanted"),
    [
        ("fp32", "fp32 again", ("fp32",)),
        ("fp16 clip=1", "bf16", ("bf16",)),
        ("fp32", "fp32 accumulate=4 fault=loss-not-divided", ("fp32", "fp32 accumulate=4 fault=loss-not-divided")),
        ("fp32 clip=1", "fp32 fault=none", ("fp32 clip=1", "fp32 fault=none")),
        ("fp32 fault=none", "fp32 fault=none", ("fp32 fault=none",)),
    ],
)
def test_the_command_of_a_run_can_be_declared_whatever_its_loop(small: Path, baseline: str, name: str, wanted: Any) -> None:
    comparison = read(small)
    declared = made.protocol(candidates=tuple(dict.fromkeys((baseline, name))))
    line = command(declared.as_dict(), {**comparison.records[0], "candidate": name})
    assert command_of(line).candidates == wanted
    assert dataclasses.replace(declared, candidates=command_of(line).candidates).candidates[-1] == wanted[-1]


@pytest.mark.parametrize("status", ["crashed", "timed out", "out of memory", "stalled"])
def test_any_way_to_end_is_said_in_words_with_its_detail(small: Path, status: str) -> None:
    rewritten(small, status=status, detail=f"{status}: signal 11, SIGSEGV", to_target=None)
    run = parsed(write(small)).all("li", **{"class": "run"})[0]
    assert f"{status.capitalize()} after " in run.text
    assert f"{status}: signal 11, SIGSEGV" in run.text


# length


def test_short_series_have_a_median_at_each_attempt_and_no_gap_between(tmp_path: Path) -> None:
    out = made.comparison(tmp_path, attempts=30, candidates=("fp32", "bf16"), seeds=(0, 1, 2))
    page = parsed(write(out))
    medians = [trace["y"] for trace in page.json("plot-loss-1")["data"] if trace["mode"] == "lines+markers"]
    assert medians
    assert all(len(line) == 30 and None not in line for line in medians)
    assert "Median loss in 12 of the 30 stretches" in page.one("figure", id="loss").text


def test_long_series_are_thinned_and_the_page_says_so(tmp_path: Path) -> None:
    out = made.comparison(tmp_path, attempts=4000 if FULL else 2000, candidates=("fp32", "fp16"), seeds=tuple(range(4)))
    size = write(out).stat().st_size
    assert size < 6_000_000
    page = parsed(out / "report.html")
    assert f" of {32_000 if FULL else 16_000:,} attempts are drawn as light lines" in page.one("figure", id="loss").text
    light = [trace for k in (1, 2) for trace in page.json(f"plot-loss-{k}")["data"] if trace["mode"] == "lines"]
    assert 10_000 < sum(len(trace["x"]) for trace in light) < 14_000
    losses = [
        line["train/loss"]
        for path in (out / "ledgers").glob("fp32-*.jsonl")
        for line in map(json.loads, path.read_text().splitlines()[1:])
    ]
    drawn = [y for y in light[0]["y"] if y is not None]
    assert (max(drawn), min(drawn)) == pytest.approx((max(losses), min(losses)), rel=1e-5)  # six significant digits


# words instead of drawings


def test_without_a_ledger_the_trends_are_words_that_say_why(small: Path) -> None:
    for path in (small / "ledgers").iterdir():
        path.unlink()
    page = parsed(write(small))
    for name in ("loss", "loss-scale", "gradient-norm"):
        assert "There are no ledgers in this folder." in page.one("figure", id=name).text
    assert "No ledger in this folder for: fp32, seed 0; fp16, seed 0; fp16, seed 1; fp32, seed 1." in page.one("main").text


def test_without_a_loss_scale_its_figure_is_words(tmp_path: Path) -> None:
    out = made.comparison(tmp_path, attempts=300, candidates=("fp32", "bf16"), seeds=(0, 1))
    words = parsed(write(out)).one("figure", id="loss-scale").text
    assert "No candidate used a loss scale: it was 1 at every attempt." in words


def test_with_one_candidate_there_is_nothing_to_pair(tmp_path: Path) -> None:
    out = made.comparison(tmp_path, attempts=300, candidates=("fp32",), seeds=(0, 1))
    page = parsed(write(out))
    assert "There is no seed on which" in page.one("figure", id="paired-by-seconds").text
    assert "nothing is held against it" in page.one("section", id="verdicts").text


def test_a_comparison_stopped_before_its_first_run_has_a_page_of_words_and_no_plotly(small: Path) -> None:
    made.write_records(small, [])
    (small / "records.jsonl").unlink()
    page = parsed(write(small))
    assert not [element for element in page.elements if "data-plot" in element.attributes]
    assert "No run has ended yet." in page.one("figure", id="not-yet-by-seconds").text
    assert (small / "report.html").stat().st_size < 200_000


def test_a_loss_that_is_never_finite_is_said_and_not_drawn(small: Path) -> None:
    for path in (small / "ledgers").iterdir():
        path.write_text(re.sub(r'"train/loss": [^,]+', '"train/loss": "nan"', path.read_text()))
    assert "No ledger holds a finite loss." in parsed(write(small)).one("figure", id="loss").text


# hostile words

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)> & %{x} \u202e\u2028 \ud800 ünïcödé"


def test_hostile_words_stay_words(tmp_path: Path) -> None:
    task = HOSTILE.replace("\ud800", "")  # a name that could be typed
    out = made.comparison(tmp_path, attempts=300, candidates=("fp32", "fp16"), seeds=(0, 1), task=task, quality=task)
    rewritten(
        out, status="error", detail=HOSTILE, hint=HOSTILE, to_target=None, environment=made.ENVIRONMENT | {HOSTILE: HOSTILE}
    )
    page = parsed(write(out))
    assert page.json("records-json")[0]["detail"] == HOSTILE
    assert page.json("protocol-json")["task"] == task
    assert page.one("h1").text.startswith(task)
    said = [element.text for element in page.all("p")]
    assert HOSTILE.replace("\ud800", "?") in said
    assert f"What to do: {HOSTILE}".replace("\ud800", "?") in said
    scripts = [element for element in page.all("script") if element.attributes.get("type") is None]
    assert len(scripts) == 1  # the page's own
    assert not page.all("img")
    assert not [name for element in page.elements for name in element.attributes if name.startswith("on")]
    for drawing in (element.attributes.get("data-plot") for element in page.elements):
        markup = set(re.findall("<[^>]*>", json.dumps(page.json(drawing)))) if drawing else set()
        assert markup <= {"<br>", "<extra>", "</extra>", "<sup>", "</sup>"}  # the figures' own


# refusals


@pytest.mark.parametrize("name", ["protocol.json", "records.jsonl", "summary.json"])
def test_a_missing_file_is_named(small: Path, name: str) -> None:
    (small / name).unlink()
    with pytest.raises(RecordError, match=re.escape(str(small / name))) as caught:
        write(small)
    assert caught.value.path == str(small / name)
    assert not (small / "report.html").exists()


def test_a_record_of_another_protocol_is_refused_by_name(small: Path) -> None:
    records = made.records_of(small)
    records[2]["protocol_hash"] = "0" * 64
    (small / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    with pytest.raises(RecordError, match="record 3") as caught:
        write(small)
    assert caught.value.found == "0" * 64
    assert caught.value.declared == records[0]["protocol_hash"]


def test_a_protocol_that_was_changed_after_the_runs_is_refused(small: Path) -> None:
    protocol = json.loads((small / "protocol.json").read_text()) | {"target": 0.5}
    (small / "protocol.json").write_text(json.dumps(protocol))
    with pytest.raises(RecordError, match=r"protocol\.json"):
        write(small)


def test_a_ledger_of_another_protocol_is_refused_by_its_header(small: Path) -> None:
    ledger = small / "ledgers" / "fp16-seed1.jsonl"
    header, _, attempts = ledger.read_text().partition("\n")
    ledger.write_text(f"{json.dumps(json.loads(header) | {'protocol_hash': 'f' * 64})}\n{attempts}")
    with pytest.raises(RecordError, match=re.escape(str(ledger))) as caught:
        write(small)
    assert caught.value.found == "f" * 64
    assert not (small / "report.html").exists()


def test_a_summary_that_is_given_leaves_out_what_came_after_it(small: Path) -> None:
    records = made.records_of(small)
    earlier = summarize(read_protocol(small), records[:3]).as_dict()
    (small / "summary.json").unlink()
    assert read(small, earlier).records == tuple(records[:3])


def test_a_summary_of_fewer_runs_is_refused(small: Path) -> None:
    summary = json.loads((small / "summary.json").read_text()) | {"runs": 3}
    (small / "summary.json").write_text(json.dumps(summary))
    with pytest.raises(RecordError, match="3 runs"):
        write(small)


@pytest.mark.parametrize("line", ["[1]", "{", '{"a": NaN}', "\udcff"])
def test_a_line_that_is_no_record_is_refused_by_its_number(small: Path, line: str) -> None:
    with (small / "records.jsonl").open("ab") as file:
        file.write(line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(RecordError, match="line 5"):
        write(small)


def test_a_torn_last_line_is_passed_over(small: Path) -> None:
    for path in (small / "records.jsonl", small / "ledgers" / "fp32-seed0.jsonl"):
        with path.open("a") as file:
            file.write('{"kind": "attempt", "att')
    assert len(parsed(write(small)).all("li", **{"class": "run"})) == 4


def test_a_page_that_cannot_be_written_leaves_the_old_one_and_nothing_beside_it(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(small)
    before = (small / "report.html").read_bytes()

    def full(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("truestep.pages.look.page.os.replace", full)
    with pytest.raises(FileError, match="No space left on device"):
        write(small)
    assert (small / "report.html").read_bytes() == before
    assert not list(small.glob(".report*"))


def test_a_run_without_the_target_has_its_best_on_validation_beside_its_final_quality_on_test(out: Path, page: Page) -> None:
    for run, record in zip(page.all("li", **{"class": "run"}), made.records_of(out), strict=True):
        best = max(each["quality"] for each in record["evaluations"])
        assert (f"Best accuracy, validation split: {best:.4f}." in run.text) == (record["to_target"] is None)
        assert "Final accuracy, test split: " in run.text
    assert "final accuracy, test split" in [head.text for head in page.all("th", role="columnheader")]


def test_pairs_are_drawn_as_the_summary_has_them(comparison: Comparison, drawn: dict[str, Figure]) -> None:
    pairs = drawn["paired-by-examples"]
    assert pairs.table is not None
    for place, one in enumerate(comparison.summary["candidates"][1:], start=1):
        ratio = one["against"]["ratios"]["examples"]
        values = [row[place].value for row in pairs.table.rows]
        assert values == [*(seed["speedup"] for seed in ratio["seeds"]), ratio["speedup"]]


def test_a_seed_on_which_neither_reached_is_counted_and_not_drawn(small: Path) -> None:
    records = made.records_of(small)
    for record in records:
        if record["seed"] == 0:
            record |= {"status": "budget", "to_target": None}
    made.write_records(small, records)
    figure = parsed(write(small)).one("figure", id="paired-by-seconds")
    assert "Not drawn: 1 pair of which neither run reached the target." in figure.text
    assert "neither reached" in figure.text


def test_a_candidates_name_is_text_in_every_figure_title(small: Path) -> None:
    comparison = read(small)
    protocol, summary = dict(comparison.protocol), json.loads(json.dumps(comparison.summary))
    protocol["candidates"] = ["<b>fp32</b>", "fp16"]
    summary["candidates"][0]["candidate"] = "<b>fp32</b>"
    records = tuple(
        {**record, "candidate": {"fp32": "<b>fp32</b>"}.get(record["candidate"], "fp16")} for record in comparison.records
    )
    hostile = dataclasses.replace(comparison, protocol=protocol, summary=summary, records=records, attempts=())
    drawn = [panel.plot["layout"]["xaxis"]["title"]["text"] for figure in figures(hostile) for panel in figure.panels]
    assert any("&lt;b&gt;fp32" in title for title in drawn)
    assert not any("<b>" in title for title in drawn)
