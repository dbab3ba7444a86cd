"""The page in a real browser: no console message, no request, no overflow, in both themes, on paper, by keyboard.

Runs where Chromium and playwright are installed: `apt-get install chromium`, `pip install playwright`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.pages import made
from tests.profile import FULL
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
    """Those of the network: a blob's address is that of text which the page holds itself."""


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


def until(page: Any, script: str) -> None:
    """Wait until `script` is true. (`wait_for_function` would need the page to allow eval.)"""
    for _ in range(1200):
        if page.evaluate(script):
            return
        page.wait_for_timeout(50)
    raise AssertionError(script)


def drawn(page: Any, *figures: str) -> None:
    """Scroll to the drawings of these figures, or through all, and wait until each is drawn: a page draws what comes near."""
    inside = ",".join(f"#{figure} .drawing" for figure in figures) or ".drawing"
    for k in range(page.locator(inside).count()):
        one = f"document.querySelectorAll('{inside}')[{k}]"
        page.evaluate(f"{one}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
        until(page, f"'drawn' in {one}.dataset")


def opened(browser: Any, report: Path, *, width: int = 1280, scheme: str = "light", **context: Any) -> Seen:
    """The page in a window of `width`, its first figure drawn where it has any."""
    seen = Seen(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **context).new_page())
    seen.page.on("console", lambda message: seen.messages.append(message.text))
    seen.page.on("pageerror", lambda error: seen.messages.append(str(error)))
    seen.page.on("request", lambda request: request.url.startswith("blob:") or seen.requests.append(request.url))
    seen.page.goto(report.as_uri())
    first = seen.page.evaluate("document.querySelector('.figure:has(.drawing)')?.id")
    if first is not None:
        drawn(seen.page, first)
    return seen


INK = {"light": "rgb(28, 30, 34)", "dark": "rgb(233, 231, 226)"}
"""The style sheet's --ink, which is the baseline's colour too."""


def colour_of_ink(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).color"))


def colours_drawn(page: Any) -> list[str]:
    """The colour of every curve of the first figure."""
    script = "[...document.querySelectorAll('#not-yet-by-seconds path.js-line')].map(path => path.style.stroke)"
    return list(page.evaluate(script))


WIDTHS, SCHEMES = (1280, 800, 390, 320), ("light", "dark")
WINDOWS = [(width, SCHEMES[k]) for place, width in enumerate(WIDTHS) for k in (0, 1) if FULL or place % 2 == k]
"""In the quick profile one scheme a width, by turns."""


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_it_draws_without_a_message_a_request_or_a_sideways_scroll(browser: Any, report: Path, width: int, scheme: str) -> None:
    seen = opened(browser, report, width=width, scheme=scheme)
    drawn(seen.page)
    assert seen.messages == []
    assert seen.requests == [report.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    over = """[...document.querySelectorAll('.drawing svg.main-svg')].some(
        svg => svg.getBoundingClientRect().right > document.documentElement.clientWidth)"""
    assert not seen.page.evaluate(over)
    seen.page.context.close()


def test_words_are_painted_before_plotly_begins_and_far_figures_wait(browser: Any, report: Path) -> None:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.add_init_script("""const made = URL.createObjectURL;
        URL.createObjectURL = (blob) => { window.began = performance.now(); return made(blob); };""")
    page.goto(report.as_uri())
    drawn(page, "not-yet-by-seconds")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted < page.evaluate("began")
    assert page.locator("#gradient-norm .trace").count() == 0
    drawn(page, "gradient-norm")
    assert page.locator("#gradient-norm .trace").count() > 0
    page.context.close()


def test_a_browser_that_refuses_blobs_draws_all_the_same(browser: Any, report: Path, tmp_path: Path) -> None:
    strict = tmp_path / "strict.html"
    strict.write_text(report.read_text().replace("script-src 'unsafe-inline' blob:", "script-src 'unsafe-inline'"))
    page = opened(browser, strict).page
    assert len(colours_drawn(page)) == 4
    page.context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_two_side_by_side_draw_likewise_and_answer_the_keyboard(browser: Any, beside: Path, width: int, scheme: str) -> None:
    seen = opened(browser, beside, width=width, scheme=scheme)
    drawn(seen.page)
    assert seen.messages == []
    assert seen.requests == [beside.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
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
    drawn(page, "not-yet-by-seconds")
    assert colours_drawn(page) == light
    page.keyboard.press("Enter")
    assert page.text_content("#theme") == "Theme: dark"
    drawn(page, "not-yet-by-seconds")
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
    until(page, f"document.querySelectorAll('#not-yet-by-seconds path.js-line').length === {before - 1}")
    button.press("Space")
    until(page, f"document.querySelectorAll('#not-yet-by-seconds path.js-line').length === {before}")
    page.context.close()


def place_of(page: Any, figure: str, path: str) -> tuple[float, float]:
    """The middle of the first such path of a figure, in the window."""
    drawn(page, figure)
    box = page.locator(f"#{figure} .drawing {path}").first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_point_under_the_pointer_says_what_it_is(browser: Any, report: Path) -> None:
    page = opened(browser, report).page
    page.mouse.move(*place_of(page, "quality", "path.point"))
    label = page.locator("#quality .hoverlayer .hovertext")
    label.wait_for()
    words = label.text_content()
    assert words.startswith("fp")
    assert "median 0.5" in words
    assert words.endswith("at 1,280 examples")
    page.mouse.move(1, 1)
    label.wait_for(state="detached")
    page.context.close()


def test_a_stretch_drawn_with_the_mouse_fills_the_drawing_and_a_button_gives_the_whole_again(browser: Any, report: Path) -> None:
    page = opened(browser, report).page
    for figure in ("quality", "loss"):  # the second is logarithmic upwards

        def ticks() -> list[list[str]]:
            sides = (page.locator(f"#{figure} .drawing").first.locator(f".{axis}tick text") for axis in "xy")  # noqa: B023
            return [list(side.all_text_contents()) for side in sides]

        drawn(page, figure)
        whole = ticks()
        box = page.locator(f"#{figure} .drawing .nsewdrag").first.bounding_box()
        page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
        page.mouse.down()
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.8 * box["height"], steps=3)
        page.mouse.up()
        button = page.locator(f"#{figure} .whole").first
        button.wait_for()
        assert all(near != far for near, far in zip(ticks(), whole, strict=True)), figure
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
    drawn(seen.page, "paired-by-examples")
    titles = seen.page.locator("#paired-by-examples .xtitle").all_text_contents()
    assert titles == [f"speedup over {SCRIPT} in examples"]
    seen.page.locator("#quality .legend button").nth(1).press("Space")  # leaves the one with that name
    seen.page.mouse.move(*place_of(seen.page, "quality", "path.point"))
    label = seen.page.locator("#quality .hoverlayer .hovertext")
    label.wait_for()
    assert SCRIPT in label.text_content()
    assert seen.page.title().startswith(SCRIPT)
    assert seen.page.evaluate("document.querySelectorAll('body script:not([type])').length") == 1
    seen.page.context.close()


def test_paper_is_light_whole_and_shows_the_protocol(browser: Any, report: Path) -> None:
    page = opened(browser, report, scheme="dark").page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert colour_of_ink(page) == INK["light"]
    assert colours_drawn(page)[0] == INK["light"]
    assert page.evaluate("document.querySelector('details[data-print]').open")
    drawings = page.evaluate("""[...document.querySelectorAll('.drawing')].map(holder => [holder.clientWidth,
        holder.querySelector('svg').clientWidth, holder.querySelectorAll('.trace').length])""")
    assert len(drawings) == 17
    assert all(0 < drawing <= room <= 690 and traces for room, drawing, traces in drawings)
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.evaluate("document.querySelector('details[data-print]').open")
    assert colour_of_ink(page) == INK["dark"]
    drawn(page, "not-yet-by-seconds")
    assert colours_drawn(page)[0] == INK["dark"]
    page.context.close()


def test_a_page_printed_at_once_has_every_drawing_on_the_paper(browser: Any, report: Path) -> None:
    page = browser.new_context(viewport={"width": 390, "height": 900}).new_page()
    page.goto(report.as_uri(), wait_until="commit")
    page.wait_for_load_state()
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert page.evaluate("[...document.querySelectorAll('.drawing')].every(holder => holder.querySelector('.trace'))")
    page.context.close()


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="there is no pdftotext (poppler) on this machine")
def test_on_paper_a_small_table_is_whole_wherever_it_comes_to_lie(browser: Any, report: Path, tmp_path: Path) -> None:
    page = opened(browser, report).page
    alone = "header, .foot, .bar, .figure, section:not(#spending) { display: none !important }"
    page.add_style_tag(content=f"{alone} main::before {{ content: ''; display: block; height: var(--above) }}")
    for above in range(700, 900, 40):  # pixels, of a page of some thousand: the table and its heading take 300
        page.evaluate(f"document.documentElement.style.setProperty('--above', '{above}px')")
        page.pdf(path=tmp_path / "printed.pdf", prefer_css_page_size=True, format="A4")
        text = subprocess.run(["pdftotext", tmp_path / "printed.pdf", "-"], check=True, capture_output=True, text=True).stdout
        (sheet,) = (sheet for sheet in text.split("\f") if "Memory and throughput:" in sheet)
        assert "static:1024" in sheet, above  # the last row
    page.context.close()


def test_without_scripts_the_tables_are_there(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("noscript").count() == 9
    page.locator("#loss summary").click()
    assert page.locator("#loss table").is_visible()
    context.close()
