"""The page in a real browser: no console message, no request, no overflow, in both themes, on paper, by keyboard.

Runs where Chromium and playwright are installed: `apt-get install chromium`, `pip install playwright`.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.pages import made
from truestep.cli import main
from truestep.pages.comparison import write
from truestep.pages.comparison.reading import protocol_hash

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

if CHROMIUM is None:
    pytest.skip("there is no Chromium on this machine", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@dataclass
class Seen:
    """An opened page, and what it said and asked for."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(made.comparison(tmp_path_factory.mktemp("browser"), attempts=400))


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of two comparisons, of which B has a seed and a candidate fewer."""
    folder = tmp_path_factory.mktemp("beside")
    made.comparison(folder / "one", attempts=300, candidates=("fp32", "bf16", "fp16"), seeds=(0, 1, 2))
    made.comparison(folder / "other", attempts=300, candidates=("fp32", "bf16"), seeds=(0, 1), device="cpu, another")
    assert main(["report", str(folder / "one"), str(folder / "other"), "--out", str(folder / "two.html")]) == 0
    return folder / "two.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield started
        started.close()


def opened(browser: Any, report: Path, *, width: int = 1280, scheme: str = "light", **context: Any) -> Seen:
    """The report in a window of `width`, drawn."""
    seen = Seen(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **context).new_page())
    seen.page.on("console", lambda message: seen.messages.append(message.text))
    seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.goto(report.as_uri())
    seen.page.wait_for_function("document.documentElement.dataset.drawn === 'true'", timeout=60_000)
    return seen


INK = {"light": "rgb(28, 30, 34)", "dark": "rgb(233, 231, 226)"}
"""The style sheet's --ink, which is the baseline's colour too."""


def colour_of_ink(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).color"))


def colours_drawn(page: Any) -> list[str]:
    """The colour of every curve of the first figure."""
    script = "[...document.querySelectorAll('#not-yet-by-seconds path.line')].map(path => getComputedStyle(path).stroke)"
    return list(page.evaluate(script))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 800, 390, 320])
def test_it_draws_without_a_message_a_request_or_a_sideways_scroll(browser: Any, report: Path, width: int, scheme: str) -> None:
    seen = opened(browser, report, width=width, scheme=scheme)
    seen.page.wait_for_timeout(200)
    assert seen.messages == []
    assert seen.requests == [report.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    assert seen.page.evaluate("[...document.querySelectorAll('.drawing')].every(holder => holder.querySelector('svg'))")
    over = """[...document.querySelectorAll('.drawing svg')].some(
        svg => svg.getBoundingClientRect().right > document.documentElement.clientWidth)"""
    assert not seen.page.evaluate(over)
    seen.page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_two_side_by_side_draw_likewise_and_answer_the_keyboard(browser: Any, beside: Path, width: int, scheme: str) -> None:
    seen = opened(browser, beside, width=width, scheme=scheme)
    assert seen.messages == []
    assert seen.requests == [beside.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    assert seen.page.evaluate("[...document.querySelectorAll('.drawing')].every(holder => holder.querySelector('svg'))")
    button = seen.page.locator("#paired-by-seconds .legend button").nth(1)
    button.press("Space")
    assert button.get_attribute("aria-pressed") == "false"
    seen.page.focus("#theme")
    for _ in range(2):
        seen.page.keyboard.press("Enter")
    assert colour_of_ink(seen.page) == INK["dark"]
    seen.page.context.close()


def test_a_request_would_be_refused_by_the_page_itself(browser: Any, report: Path) -> None:
    page = opened(browser, report).page
    refused = "fetch('https://example.invalid/').then(() => 'asked', error => error.name)"
    assert page.evaluate(refused) == "TypeError"
    policy = """new Promise(resolve => {
        addEventListener('securitypolicyviolation', event => resolve(event.violatedDirective));
        const image = new Image(); image.src = 'https://example.invalid/x.png'; })"""
    assert page.evaluate(policy) == "img-src"
    page.context.close()


def test_figures_follow_the_theme_which_the_keyboard_can_change(browser: Any, report: Path) -> None:
    page = opened(browser, report).page
    light = colours_drawn(page)
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.text_content("#theme") == "Theme: light"
    assert colours_drawn(page) == light
    page.keyboard.press("Enter")
    assert page.text_content("#theme") == "Theme: dark"
    dark = colours_drawn(page)
    assert len(dark) == len(light) == 4
    assert all(one != other for one, other in zip(light, dark, strict=True))
    assert (light[0], dark[0]) == (INK["light"], INK["dark"])
    assert colour_of_ink(page) == INK["dark"]
    page.context.close()


def test_focus_is_visible_on_everything_that_the_tab_key_reaches(browser: Any, report: Path) -> None:
    page = opened(browser, report).page
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        tag, style, width = page.evaluate(
            "[document.activeElement.tagName + ' ' + (document.activeElement.id || document.activeElement.className),"
            " getComputedStyle(document.activeElement).outlineStyle,"
            " parseFloat(getComputedStyle(document.activeElement).outlineWidth)]"
        )
        reached.add(tag)
        assert (style, width >= 2) == ("solid", True), tag
    assert {"A skip", "BUTTON theme", "DIV scroll", "SUMMARY "} <= reached
    page.context.close()


def test_the_legend_takes_a_candidate_out_of_its_drawing(browser: Any, report: Path) -> None:
    page = opened(browser, report).page
    before = len(colours_drawn(page))
    button = page.locator("#not-yet-by-seconds .legend button").nth(1)
    button.press("Space")
    assert button.get_attribute("aria-pressed") == "false"
    page.wait_for_function(f"document.querySelectorAll('#not-yet-by-seconds path.line').length === {before - 1}", timeout=10_000)
    button.press("Space")
    page.wait_for_function(f"document.querySelectorAll('#not-yet-by-seconds path.line').length === {before}", timeout=10_000)
    page.context.close()


def place_of(page: Any, figure: str, path: str) -> tuple[float, float]:
    """The pixel at which a path of a figure begins, in the window."""
    page.locator(f"#{figure} .drawing").first.scroll_into_view_if_needed()
    script = """([figure, path]) => {
        const holder = document.querySelector(`#${figure} .drawing`), box = holder.getBoundingClientRect();
        const [x, y] = holder.querySelector(path).getAttribute("d").match(/M([-0-9.]+) ([-0-9.]+)/).slice(1).map(Number);
        return [box.left + x, box.top + y]; }"""
    x, y = page.evaluate(script, [figure, path])
    return float(x), float(y)


def test_a_point_under_the_pointer_says_what_it_is(browser: Any, report: Path) -> None:
    page = opened(browser, report).page
    page.mouse.move(*place_of(page, "quality", "path.mark"))
    words = page.locator("#quality .hover").inner_text()
    assert words.startswith("fp")
    assert "median 0.5" in words
    assert words.endswith("at 1,280 examples")
    page.mouse.move(1, 1)
    assert not page.locator("#quality .hover").is_visible()
    page.context.close()


def test_a_stretch_drawn_with_the_mouse_fills_the_drawing_and_a_button_gives_the_whole_again(browser: Any, report: Path) -> None:
    page = opened(browser, report).page

    def ticks() -> list[str]:
        return list(page.locator("#quality .drawing .ticks text").all_text_contents())

    whole = ticks()
    x, y = place_of(page, "quality", "path.mark")
    page.mouse.move(x + 200, y - 20)
    page.mouse.down()
    page.mouse.move(x + 400, y - 20, steps=3)
    page.mouse.up()
    assert ticks() != whole
    button = page.locator("#quality .whole")
    button.focus()
    page.keyboard.press("Enter")
    assert ticks() == whole
    assert not button.is_visible()
    page.context.close()


SCRIPT = "<script>document.title = 'run'</script>"


def test_a_name_that_is_markup_is_drawn_as_its_letters(browser: Any, tmp_path: Path) -> None:
    declared = {"candidates": ("fp32", "bf16"), "seeds": (0, 1, 2), "task": SCRIPT, "quality": f"{SCRIPT}{{x}}"}
    out = made.comparison(tmp_path / "out", attempts=300, **declared)
    for path in (out / "protocol.json", out / "summary.json", out / "records.jsonl"):
        path.write_text(path.read_text().replace('"fp32"', json.dumps(SCRIPT)))
    digest = protocol_hash(json.loads((out / "protocol.json").read_text()))
    for path in (*out.glob("*.json*"), *(out / "ledgers").iterdir()):
        path.write_text(re.sub('"protocol_hash": ?"[0-9a-f]{64}"', f'"protocol_hash": "{digest}"', path.read_text()))
    seen = opened(browser, write(out))
    assert seen.messages == []
    assert seen.page.title().startswith(SCRIPT)
    assert seen.page.evaluate("document.querySelectorAll('script:not([type])').length") == 2
    titles = seen.page.locator("#paired-by-examples .ticks .title").all_text_contents()
    assert titles == [f"speedup over {SCRIPT} in examples"]
    seen.page.mouse.move(*place_of(seen.page, "quality", "path.mark"))
    assert SCRIPT in seen.page.locator("#quality .hover").inner_text() + "".join(seen.page.locator(".legend").all_inner_texts())
    seen.page.context.close()


def test_printed_without_a_warning_event_every_picture_is_on_the_paper(browser: Any, report: Path) -> None:
    page = opened(browser, report, width=390).page
    page.emulate_media(media="print")
    script = """[...document.querySelectorAll('.drawing')].map(holder => [holder.clientWidth,
        holder.querySelector('svg').getBoundingClientRect().width, holder.querySelectorAll('.trace').length])"""
    drawn = page.evaluate(script)
    assert len(drawn) == 16
    assert all(0 < picture <= room and traces for room, picture, traces in drawn)
    page.context.close()


def test_paper_is_light_whole_and_shows_the_protocol(browser: Any, report: Path) -> None:
    page = opened(browser, report, scheme="dark").page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert colour_of_ink(page) == INK["light"]
    assert colours_drawn(page)[0] == INK["light"]
    assert page.evaluate("document.querySelector('details[data-print]').open")
    widths = page.evaluate(
        "[...document.querySelectorAll('.drawing')].map(d => [d.clientWidth, d.querySelector('svg').clientWidth])"
    )
    assert all(drawn <= room <= 690 for room, drawn in widths)
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.evaluate("document.querySelector('details[data-print]').open")
    assert colour_of_ink(page) == INK["dark"]
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.context.close()


def test_without_scripts_the_tables_are_there(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("noscript").count() == 9
    page.locator("#loss summary").click()
    assert page.locator("#loss table").is_visible()
    context.close()
