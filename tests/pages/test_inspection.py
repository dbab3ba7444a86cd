"""The page of an inspection says what its record says, asks nothing of the network, and is never empty without words."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.inspection import samples
from tests.pages.reading_html import Page, parsed
from truestep.errors import FileError, RecordError
from truestep.formats import FORMATS
from truestep.inspection.spread import STORABLE
from truestep.pages.inspection import write
from truestep.pages.inspection.headline import headline
from truestep.pages.inspection.picture import picture, region_edges
from truestep.pages.inspection.tables import by_format, by_layer, movements
from truestep.pages.look.table import Cell

MARKUP = "</script><b onclick='x'>&{{ 1 }}"


MADE = json.dumps(samples.inspection().record(), allow_nan=False)


def record() -> dict[str, Any]:
    """A sample's record as a file holds it."""
    found: dict[str, Any] = json.loads(MADE)
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    return parsed(write(record(), tmp_path_factory.mktemp("inspection") / "page.html"))


def numbers(value: object) -> set[float]:
    """Every number anywhere in a record."""
    if isinstance(value, dict):
        return set().union(*map(numbers, value.values()))
    if isinstance(value, list):
        return set().union(*map(numbers, value))
    return {float(value)} if isinstance(value, int | float) else set()


def flat(cells: tuple[Cell, ...]) -> list[Cell]:
    return [one for cell in cells for one in (cell, *flat(cell.below))]


# what the page says


def test_the_page_holds_the_record_itself(page: Page) -> None:
    assert page.json("record-json") == record()
    assert [element.tag for element in page.elements if element.tag in ("html", "head", "body", "main", "h1")] == [
        *("html", "head", "body", "main", "h1")
    ]


def test_nothing_on_the_page_is_fetched(page: Page) -> None:
    fetching = ("src", "srcset", "href", "xlink:href", "poster", "data", "action", "formaction", "background")
    addresses = [element.attributes[name] for element in page.elements for name in fetching if name in element.attributes]
    assert addresses
    assert all(address is not None and address.startswith(("#", "data:")) for address in addresses)
    assert not any(re.search(r"url\(|@import|https?:", each.text) for each in page.all("style"))
    policy = page.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
    assert policy is not None
    assert policy.startswith("default-src 'none';")


def test_every_number_of_the_tables_at_scale_1_and_by_layer_is_one_of_the_record() -> None:
    found = record()
    held = numbers(found)
    titled = (*by_layer(found), *by_format(found)[:1], *movements(found))
    cells = [cell for each in titled for row in each.table.rows for cell in flat(row) if cell.value is not None]
    assert len(cells) > 400
    assert {float(cell.value) for cell in cells if cell.value is not None} <= held
    for cell in cells:
        assert cell.value is not None
        number = re.search(r"\d[\d,]*(\.\d+)?(e-\d+)?", cell.words)
        assert number is not None, cell
        said = float(number[0].replace(",", "")) / (100 if "%" in cell.words else 1)
        assert said == pytest.approx(cell.value, rel=0.005)  # half a unit of the third significant digit is 1 in 200


def test_every_format_at_the_scale_in_use_is_what_the_spread_loses_there() -> None:
    made = samples.inspection(scale=13)
    _, titled = by_format(made.record())
    assert titled.table.columns == ("format", "activation gradients", "weight gradients")
    assert [row[0].words for row in titled.table.rows] == list(STORABLE)
    for name, *cells in titled.table.rows:
        for kind, cell in zip(("activation gradients", "weight gradients"), cells, strict=True):
            losses = made.all(kind).spread.losses(FORMATS[name.words], scale=13)
            assert [each.value for each in flat((cell,))] == [
                losses.share("flushed"),
                losses.share("subnormal"),
                losses.share("overflowed"),
            ]


def test_the_table_by_layer_has_a_row_for_each_kind_of_each_layer_in_the_order_of_the_record() -> None:
    found = record()
    (titled,) = by_layer(found)
    rows = [*found["whole"], *found["numbers"]]
    assert [row[0].words for row in titled.table.rows] == [f"{each['layer'] or 'all layers'}: {each['kind']}" for each in rows]


def test_advice_operations_and_notes_are_on_the_page(page: Page) -> None:
    text = page.one("main").text
    found = record()
    for each in found["advice"]:
        assert each["text"] in text
        assert each["reason"] in text
    assert all(each["name"] in text for each in found["operations"])
    assert all(note in text for note in found["notes"])


@pytest.mark.parametrize("name", STORABLE)
def test_regions_begin_where_rounding_changes(name: str) -> None:
    each = FORMATS[name]
    zero, normal, top = region_edges(record()["regions"][name])
    above = math.nextafter(zero, math.inf)
    assert (each.round(zero), each.round(above)) == (0, each.smallest_subnormal)
    assert each.round(normal) == each.smallest_normal
    assert each.round(math.nextafter(normal, 0)) < each.smallest_normal
    assert each.round(math.nextafter(top, 0)) == each.max
    if each.overflow != "saturate":
        assert not math.isfinite(each.round(math.nextafter(top, math.inf)))


def test_bars_are_as_high_as_their_share_of_all_values_and_all_within_the_drawing() -> None:
    found = picture(record())
    low, high = found.data["window"]
    row, drawn = record()["whole"][2], found.sets[2]
    bars = [(int(x), float(y)) for x, y in re.findall(r"M(-?\d+) 100V([\d.e-]+)h1V100z", drawn["path"])]
    assert [x for x, _ in bars] == [exponent for exponent, _ in row["spread"]["histogram"]]
    assert low < min(x for x, _ in bars) + found.exponents[0]
    assert max(x for x, _ in bars) + 1 + found.exponents[-1] < high
    (least, most), *_ = [(word, at) for word, at in found.axes.levels if word == "10 %"]
    assert least == "10 %"
    decades = 100 / (100 - most)
    for (_, y), (_, count) in zip(bars, row["spread"]["histogram"], strict=True):
        share = count / row["spread"]["elements"]
        assert 10 ** ((100 - y) / 100 * decades - decades) == pytest.approx(share, rel=0.02)  # a drawing has 4 digits
        assert y < 100  # the least bar is seen


# what there is not


def test_where_all_is_zero_the_page_says_so(tmp_path: Path) -> None:
    page = parsed(write(samples.all_zero().record(), tmp_path / "page.html"))
    assert [each["path"] for each in page.json("picture-json")["sets"]] == [None] * 10
    assert {each["absent"] for each in page.json("picture-json")["sets"]} == {"All zero: nothing lies on the number line."}
    text = page.one("main").text
    assert "all zero" in text
    assert "no values but zero" in text
    assert "No operation was recorded." in text


def test_a_record_without_rows_is_told_in_words(tmp_path: Path) -> None:
    nothing = replace(samples.inspection(), numbers=(), whole=(), movements=(), operations=(), advice=())
    text = parsed(write(nothing.record(), tmp_path / "page.html")).one("main").text
    assert "The record holds no values, so there is nothing to draw." in text
    assert "The record holds no advice." in text


def test_float32_alone_has_no_measured_column_to_show(tmp_path: Path) -> None:
    made = samples.inspection(policy="fp32", format="fp32", scale=0)
    page = parsed(write(made.record(), tmp_path / "page.html"))
    assert page.one("main").text.count("not measured") == 15
    assert len(by_format(made.record())) == 1  # the scale in use is 1, which is shown already


# what could break it


def test_markup_in_names_stays_text(tmp_path: Path) -> None:
    made = replace(samples.inspection(layers=(MARKUP,)), task=MARKUP, notes=(MARKUP,))
    page = parsed(write(made.record(), tmp_path / "page.html"))
    assert page.json("record-json")["task"] == MARKUP
    assert page.one("h1").text == f"{MARKUP} in fp16"
    assert not [element for element in page.elements if "onclick" in element.attributes]


def test_a_record_of_something_else_is_refused(tmp_path: Path) -> None:
    for other in ({}, {"schema": 2, "whole": []}, {"schema": 1, "runs": []}):
        with pytest.raises(RecordError, match="no record of an inspection in schema 1"):
            write(other, tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"cannot write .*nowhere"):
        write(record(), tmp_path / "nowhere" / "page.html")


def test_no_table_says_whose_numbers_they_are_for_that_goes_by_the_policy_and_the_notes_say_it() -> None:
    made = samples.inspection(policy="bf16", format="bf16", scale=0).record()
    assert not [note for titled in by_layer(made) for note in titled.notes if "redicted" in note]


@pytest.mark.parametrize(("microbatches", "words"), [(1, "1 microbatch in"), (4, "4 microbatches in")])
def test_the_first_sentence_counts_microbatches(microbatches: int, words: str) -> None:
    assert words in headline(replace(samples.inspection(), microbatches=microbatches).record()).lead
