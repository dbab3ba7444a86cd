"""The picture of an inspection in a real browser: no message, no request, and by keyboard the shares of the record.

Runs where Chromium and playwright are installed: `apt-get install chromium`, `pip install playwright`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inspection import samples
from tests.pages.test_browser import CHROMIUM, FLAGS, WINDOWS, colour_of_ink, opened, playwright
from truestep.formats import FORMATS
from truestep.inspection.spread import STORABLE
from truestep.pages.inspection import write

MADE = samples.inspection()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(MADE.record(), tmp_path_factory.mktemp("inspection") / "page.html")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield started
        started.close()


def shown(page: Any) -> list[float]:
    """The shares below the picture: zero, subnormal, normal, overflow."""
    return [float(value) for value in page.eval_on_selector_all("#fate data", "all => all.map(each => each.value)")]


def expected(name: str, scale: int) -> list[float]:
    """The same, from the counts."""
    losses = MADE.all("activation gradients").spread.losses(FORMATS[name], scale=scale)
    normal = losses.elements - losses.flushed - losses.subnormal - losses.overflowed
    return [count / losses.elements for count in (losses.flushed, losses.subnormal, normal, losses.overflowed)]


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_it_draws_without_a_message_a_request_or_a_sideways_scroll(chromium: Any, report: Path, width: int, scheme: str) -> None:
    seen = opened(chromium, report, width=width, scheme=scheme)
    assert seen.messages == []
    assert seen.requests == [report.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    empty = "[...document.querySelectorAll('.spread path')].filter(path => path.getBoundingClientRect().height < 20).length"
    assert seen.page.evaluate(empty) == 0
    seen.page.context.close()


def test_the_scale_moves_by_keyboard_and_the_shares_are_those_of_the_record(chromium: Any, report: Path) -> None:
    seen = opened(chromium, report)
    page = seen.page
    assert shown(page) == expected("fp16", 16)
    page.focus("#scale")
    page.keyboard.press("Home")
    for scale in range(3):
        assert page.text_content("#scale-shown") == f"2{scale} = {2**scale}"
        assert page.get_attribute("#picture path", "transform") == f"translate({scale} 0)"
        assert shown(page) == expected("fp16", scale)
        page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    last = int(page.input_value("#scale"))
    assert last >= 24
    assert shown(page) == expected("fp16", last)
    assert seen.messages == []
    page.context.close()


def test_the_format_is_chosen_by_keyboard_and_small_drawings_follow(chromium: Any, report: Path) -> None:
    page = opened(chromium, report).page
    page.focus("#format")
    page.keyboard.press("Home")
    for name in STORABLE:
        assert page.eval_on_selector("#format", "it => it.selectedOptions[0].textContent").startswith(f"{name} (")
        assert shown(page) == expected(name, 16)
        page.keyboard.press("ArrowDown")
    small = page.locator(".small").nth(2)  # activation gradients of all layers, in the last format
    assert small.locator(".lost").text_content().startswith("zero 100")
    page.context.close()


def test_what_the_scale_does_not_multiply_says_so_and_stays(chromium: Any, report: Path) -> None:
    page = opened(chromium, report).page
    page.select_option("#values", label="weights, all layers")
    assert page.is_disabled("#scale")
    assert page.text_content("#lossless") == "The loss scale does not multiply these."
    assert page.get_attribute("#picture path", "transform") == "translate(0 0)"
    page.context.close()


def test_the_scales_that_lose_nothing_are_those_of_the_record(chromium: Any, report: Path) -> None:
    page = opened(chromium, report).page
    found = MADE.all("activation gradients").scales
    assert found is not None
    assert found.lossless is not None
    low, high = found.lossless
    last = min(high, int(page.get_attribute("#scale", "max")))
    assert page.text_content("#lossless") == f"Nothing is lost in fp16 from 2{low} to 2{last}, of the scales here."
    page.context.close()


def test_an_empty_picture_has_words(chromium: Any, tmp_path: Path) -> None:
    seen = opened(chromium, write(samples.all_zero().record(), tmp_path / "page.html"))
    assert seen.messages == []
    assert seen.page.is_visible("text=All zero: nothing lies on the number line. >> nth=0")
    assert seen.page.eval_on_selector_all("#fate data", "all => all.map(each => each.textContent)") == ["no values"] * 4
    seen.page.context.close()


def test_the_tab_key_reaches_the_controls_with_a_visible_focus(chromium: Any, report: Path) -> None:
    page = opened(chromium, report).page
    reached = {}
    for _ in range(14):
        page.keyboard.press("Tab")
        name, style = page.evaluate("[document.activeElement.id, getComputedStyle(document.activeElement).outlineStyle]")
        reached[name] = style
    assert {reached.get(name) for name in ("values", "format", "scale")} == {"solid"}
    page.context.close()


def test_paper_is_light_and_without_scripts_the_tables_are_there(chromium: Any, report: Path) -> None:
    page = opened(chromium, report, scheme="dark").page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert colour_of_ink(page) == "rgb(28, 30, 34)"
    assert not page.is_visible(".controls")
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.context.close()
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.is_visible("#numbers table >> nth=0")
    assert page.locator("noscript p").is_visible()
    assert not page.is_visible(".controls")
    context.close()
