"""`truestep inspect`: every option reaches the inspection, and what is printed is the record."""

import json
import math
import re
import sys
from dataclasses import replace
from inspect import signature
from types import SimpleNamespace

import pytest

from tests.inspection import samples
from truestep.cli import main
from truestep.engine.scale import LossScale
from truestep.inspection.inspect import inspect
from truestep.inspection.spread import Spread

MADE = samples.inspection()


@pytest.fixture
def asked(monkeypatch):
    """What the inspection was asked for, instead of one."""
    seen = {"found": MADE}

    def asking(what, **options):
        seen.update(options, what=what)
        print("a task speaks")
        return seen["found"]

    monkeypatch.setitem(sys.modules, "truestep.inspection.inspect", SimpleNamespace(inspect=asking))
    return seen


def test_every_option_reaches_the_inspection(asked, capsys):
    words = "inspect digits --policy bf16 --accumulate 8 --attempts 3 --after 20 --seed 5 --device cpu --scale static:1024"
    assert main(words.split()) == 0
    del asked["found"]
    assert asked == {
        "what": "digits",
        "policy": "bf16",
        "microbatches": 8,
        "attempts": 3,
        "after": 20,
        "seed": 5,
        "device": "cpu",
        "scale": LossScale.static(1024.0),
    }


def test_what_is_not_said_has_the_defaults_of_the_library(asked, capsys):
    defaults = {each.name: each.default for each in signature(inspect).parameters.values() if each.kind == each.KEYWORD_ONLY}
    assert main(["inspect", "digits"]) == 0
    assert {name: asked[name] for name in defaults} == defaults


def test_json_is_one_document_the_record(asked, capsys):
    assert main(["inspect", "digits", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == json.loads(json.dumps(asked["found"].record()))
    assert err == "a task speaks\n"


def test_the_page_is_written_and_holds_the_same_record(asked, capsys, tmp_path):
    path = tmp_path / "page.html"
    assert main(["inspect", "digits", "--html", str(path)]) == 0
    assert str(path) in capsys.readouterr().err
    assert '<script type="application/json" id="record-json">{"schema":1' in path.read_text()


def test_a_page_that_cannot_be_written_is_refused_before_the_work(asked, capsys, tmp_path):
    assert main(["inspect", "digits", "--html", str(tmp_path / "nowhere" / "page.html")]) == 3
    assert "what" not in asked
    assert "hint: name a file in a folder that exists" in capsys.readouterr().err


def test_a_scale_that_says_nothing_is_usage(asked, capsys):
    assert main(["inspect", "digits", "--scale", "much"]) == 2
    assert "--scale much says nothing" in capsys.readouterr().err


def printed(asked, capsys):
    assert main(["inspect", "digits"]) == 0
    out, _ = capsys.readouterr()
    return out


def test_the_tables_hold_the_figures_of_the_record(asked, capsys):
    out = printed(asked, capsys)
    blocks = {block.splitlines()[0]: block.splitlines()[1:] for block in out.split("\n\n")}
    row = next(line for line in blocks["Where the numbers lie"] if line.startswith("head  ") and "act. grads" in line)
    assert row.split()[3:] == ["2^-36", "..", "2^-26", "7", "2^11", "..", "2^41"]
    rows = [line for title, lines in blocks.items() if title.startswith("Lost") for line in lines[1:]]
    assert len(rows) == 2 * 15
    use = asked["found"].of("features.0", "activation gradients").in_use
    figures = [f"{100 * use.share(name):.3g}" for name in ("flushed", "subnormal", "overflowed")]
    line = next(line for line in rows[15:] if line.startswith("features.0  act. grads"))
    assert line.split()[4:7] == figures
    for block in ("at scale 1", "at scale 2^16"):
        assert any(title.endswith(block) for title in blocks)
    assert ["aten._log_softmax", "forward", "fp32", "fp16", "4", "2"] in [line.split() for line in blocks["Operations"]]


def test_advice_with_its_reason_and_notes_stand_last(asked, capsys):
    lines = printed(asked, capsys).splitlines()
    assert lines[-5:] == [
        "the whole model: take a loss scale of 2^12 (2^4 .. 2^20 loses nothing in fp16)",
        "features.0: fits fp16 (nothing is lost at 2^16)",
        "head: fits fp16 (nothing is lost at 2^16)",
        *asked["found"].notes,
    ]


@pytest.mark.parametrize("made", [samples.all_zero, lambda: samples.inspection(policy="fp32", format="fp32", scale=0)])
def test_what_is_absent_is_a_dash_or_words(asked, capsys, made):
    asked["found"] = made()
    out = printed(asked, capsys)
    assert "None" not in out
    assert "\x1b" not in out


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_on_a_terminal_nothing_is_cut_off_and_80_columns_suffice(asked, capsys, monkeypatch, columns):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    out = printed(asked, capsys)
    assert "…" not in out
    tables = out.split("\n\n")[1:-1]
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for table in tables for line in table.splitlines()]
    assert max(map(len, lines)) <= 80


def test_weights_that_are_not_finite_are_said_and_exit_1_for_the_inspection_ran(asked, capsys):
    bad = Spread.of([1.0, math.nan, math.inf])
    rows = tuple(replace(row, spread=bad) if row.kind == "weights" else row for row in MADE.numbers)
    asked["found"] = replace(MADE, numbers=rows)
    assert main(["inspect", "digits", "--json"]) == 1
    out, err = capsys.readouterr()
    json.loads(out, parse_constant=pytest.fail)
    assert "weights of head are not finite (1 infinite and 1 NaN of 3): what else was counted means little" in err
