"""What all pages share: escaping, axes, and what a ledger's resume leaves to draw."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plotly.offline import get_plotlyjs_version

from tests.no_room import NO_ROOM, no_room
from truestep.errors import FileError
from truestep.pages.comparison.attempts import read_attempts
from truestep.pages.look.candidates import COLOURS, looks
from truestep.pages.look.embed import figure_text, json_script
from truestep.pages.look.figure import logarithmic
from truestep.pages.look.page import write_page

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_plotlys_script_is_the_file_that_its_table_says_and_of_the_version_that_the_package_writes_for() -> None:
    folder = files("truestep.pages.look").joinpath("plotly")
    script, table = folder.joinpath("plotly-basic.min.js").read_bytes(), folder.joinpath("README.md").read_text()
    assert f"| bytes | {len(script)} |" in table
    assert f"| SHA-256 | {hashlib.sha256(script).hexdigest()} |" in table
    assert f"* plotly.js (basic - minified) v{get_plotlyjs_version()}\n" in script[:100].decode()
    assert f"| version | {get_plotlyjs_version()}, " in table


@given(anything)
def test_embedded_json_comes_back_and_never_ends_its_element(value: object) -> None:
    script = str(json_script("data", value))
    inside = script.removeprefix('<script type="application/json" id="data">').removesuffix("</script>")
    assert json.loads(inside) == value
    assert inside.isascii()
    assert not re.search("[<>&']", inside)


def test_a_number_that_json_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_script("data", math.inf)


@given(st.text())
def test_text_in_a_figure_holds_no_markup_and_no_placeholder(text: str) -> None:
    shown = figure_text(text)
    assert not re.search("[<>]|%{", shown)


@given(st.floats(1e-12, 1e12), st.floats(1.0, 1e12))
def test_a_logarithmic_axis_holds_its_values_and_ticks_apart(low: float, ratio: float) -> None:
    axis = logarithmic(low, low * ratio)
    bottom, top = axis["range"]
    assert bottom <= math.log10(low)
    assert math.log10(low * ratio) <= top
    places = [math.log10(tick) for tick in axis["tickvals"]]
    assert places == sorted(places)
    assert 2 <= len(places) <= 10
    assert all(bottom <= place <= top for place in places)
    assert len(axis["ticktext"]) == len(set(axis["ticktext"])) or ratio < 1.001


def test_every_colour_of_a_look_is_declared_for_light_and_dark_paper() -> None:
    style = files("truestep.pages.look").joinpath("page.css").read_text()
    declared = re.findall(r"(--series-\d+): light-dark\((#\w{6}), (#\w{6})\)", style)
    assert [name for name, _, _ in declared] == [f"--series-{slot}" for slot in range(COLOURS)]
    assert {look.colour for look in looks(map(str, range(50))).values()} == {f"var({name})" for name, _, _ in declared}


def _luminance(colour: str) -> float:
    """WCAG 2's relative luminance of #rrggbb."""
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_stand_out_from_the_paper_as_wcag_asks() -> None:
    style = files("truestep.pages.look").joinpath("page.css").read_text()
    colours = {name: pair for name, *pair in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", style)}
    for paper in (0, 1):
        for name in ("ink", "muted", "good", "bad", *(f"series-{slot}" for slot in range(COLOURS))):
            least = 3.0 if name.startswith("series") else 4.5  # 1.4.11 for graphics, 1.4.3 for text
            assert _contrast(colours[name][paper], colours["paper"][paper]) >= least, (name, paper)


def _attempt(number: int, loss: float) -> dict[str, object]:
    counts = {"examples_seen": 8 * number}
    fields = {"train/loss": loss, "grad_norm": 1.0, "amp/loss_scale": 1.0}
    return {"kind": "attempt", "attempt": number, "skip": None, "counts": counts} | fields


def test_attempts_that_a_resume_rolled_back_are_not_drawn() -> None:
    lines = [_attempt(1, 3.0), _attempt(2, 2.0), {"kind": "resume", "attempts": 1}, _attempt(2, 1.5), _attempt(3, 1.0)]
    read = read_attempts(lines, candidate="fp32", seed=0)
    assert read.loss.tolist() == [3.0, 1.5, 1.0]
    assert read.examples.tolist() == [8.0, 16.0, 24.0]
    assert read.rolled_back == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes among its files")
def test_a_pipe_is_written_to_and_never_replaced_by_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    os.mkfifo(page)
    with open(os.open(page, os.O_RDONLY | os.O_NONBLOCK), "rb") as reading:
        write_page(page, "<p>words</p>")
        assert reading.read() == b"<p>words</p>"
    assert page.is_fifo()
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_full_disk_is_said_and_leaves_the_older_page(tmp_path: Path) -> None:
    page = write_page(tmp_path / "page.html", "<p>older</p>")
    with no_room(4), pytest.raises(FileError, match=NO_ROOM):
        write_page(page, "<p>words</p>")
    assert page.read_text() == "<p>older</p>"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
