"""The site in a real browser: silent, alone, legible in both themes, on a phone, by keyboard; it grades as the record says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pages.labs.made import record
from tests.pages.test_browser import CHROMIUM, FLAGS, opened, playwright
from tests.profile import FULL
from truestep.pages.labs import PICTURES, write

PAGES = ("index", "clip-order", "bits", *(picture.file.removesuffix(".html") for picture in PICTURES))
KEPT = "JSON.parse(localStorage.getItem('truestep-labs'))"
CONTRAST = """() => {
  const channels = text => {
    const all = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith('color(') ? all.map((c, k) => k < 3 ? c * 255 : c) : all;
  };
  const luminance = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, k) => sum + [0.2126, 0.7152, 0.0722][k] * c, 0);
  const opaque = colour => colour.length < 4 || colour[3] === 1;
  const behind = element => {
    const node = element.closest('.plan a')?.querySelector('rect');
    if (node) return channels(getComputedStyle(node).fill);
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (opaque(colour)) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.closest('script, style, option, :disabled, [aria-disabled=true], .skip')) continue;
    const style = getComputedStyle(element), svg = element.namespaceURI.endsWith('svg');
    const [one, other] = [luminance(channels(svg ? style.fill : style.color)), luminance(behind(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    seen += 1;
    if (ratio < 4.5) poor.push([element.tagName, walker.currentNode.data, ratio]);
  }
  return [seen, poor];
}"""

MOVED = """cases => cases.map(case_ => {
  ['format', 'gradient', 'scale'].forEach((name, k) => { document.getElementById(name).value = String(case_[k]); });
  document.getElementById('scale').dispatchEvent(new Event('input'));
  const value = name => document.getElementById(name).dataset.value ?? null;
  return [document.getElementById('fate').dataset.fate, ...['stored', 'error', 'back'].map(value)];
})"""
"""The number line moved to each place, format, gradient and scale: fate, stored, error, back."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(record(), tmp_path_factory.mktemp("labs")).parent


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield started
        started.close()


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (390, "dark"), *([(800, "light"), (320, "light")] if FULL else [])]
)
def test_a_page_is_silent_alone_legible_and_no_wider_than_its_window(
    chromium: Any, folder: Path, name: str, width: int, scheme: str
) -> None:
    path = folder / f"{name}.html"
    seen = opened(chromium, path, width=width, scheme=scheme)
    seen.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    count, poor = seen.page.evaluate(CONTRAST)
    assert count > 20
    assert poor == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    assert seen.messages == []
    assert seen.requests == [path.as_uri()]
    seen.page.context.close()


def test_the_number_line_is_walked_by_keyboard_alone_and_shows_the_table(chromium: Any, folder: Path) -> None:
    table = record()["pictures"]["number-line"]
    seen = opened(chromium, folder / "see-number-line.html")
    page = seen.page
    focused = "document.activeElement.id"
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate(focused) == "format":
            break
    page.keyboard.press("ArrowDown")  # bfloat16
    form = table["formats"][1]
    page.keyboard.press("Tab")
    assert page.evaluate(f"[{focused}, getComputedStyle(document.activeElement).outlineStyle]") == ["gradient", "solid"]
    page.keyboard.press("Home")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "scale"
    page.keyboard.press("End")
    for exponent in (24, 23, 22):
        assert shown(page) == [form["stored"][3][exponent], form["error"][3][exponent]]
        assert page.get_attribute("#scale", "aria-valuetext") == f"2 to the power of {exponent}"
        page.keyboard.press("ArrowLeft")
    assert page.get_attribute(".facts", "aria-live") == "polite"
    assert seen.messages == []
    page.context.close()


def shown(page: Any) -> list[float | None]:
    """What the number line says is stored, and the error; None for none."""
    values = [page.get_attribute(name, "data-value") for name in ("#stored", "#error")]
    return [None if value is None else float(value) for value in values]


def test_every_fate_of_every_format_is_what_the_table_has(chromium: Any, folder: Path) -> None:
    table = record()["pictures"]["number-line"]
    page = opened(chromium, folder / "see-number-line.html").page
    rows, scales = range(0, len(table["gradients"]), 1 if FULL else 13), (0, 11, 24)
    cases = [(place, row, scale) for place in range(len(table["formats"])) for row in rows for scale in scales]
    found = page.evaluate(MOVED, cases)
    fates = set()
    for (place, row, scale), (fate, *values) in zip(cases, found, strict=True):
        form = table["formats"][place]
        stored, error = form["stored"][row][scale], form["error"][row][scale]
        back = None if stored is None else stored / 2.0**scale
        assert fate == form["fate"][row][scale]
        assert [None if value is None else float(value) for value in values] == [stored, error, back]
        fates.add(fate)
    assert fates >= {"zero", "subnormal", "rounded", "overflow", "saturated"}
    page.context.close()


def test_swapping_clip_and_unscale_shows_what_each_order_left(chromium: Any, folder: Path) -> None:
    table = record()["pictures"]["clip-and-unscale"]
    page = opened(chromium, folder / "see-clip-and-unscale.html").page
    for place, setting in enumerate(table["settings"]):
        page.select_option("#setting", str(place))
        page.focus("#factor")
        page.keyboard.press("End")
        case = setting["cases"][-1]
        for order in ("unscale", "clip"):
            assert page.text_content("#order").startswith(order)
            assert float(page.get_attribute("#second", "data-value")) == case[order][-1]["norm"]
            assert float(page.get_attribute("#engine", "data-value")) == case["engine"]["norm"]
            page.locator("#swap").press("Enter")
    page.context.close()


def test_without_update_the_skips_repeat(chromium: Any, folder: Path) -> None:
    page = opened(chromium, folder / "see-scale-walk.html").page
    with_update = int(page.get_attribute("#said", "data-value"))
    page.focus("[name=update][value=yes]")
    page.keyboard.press("ArrowRight")
    rows = page.locator("#rows tbody tr")
    scales = {rows.nth(k).locator("td").nth(1).text_content() for k in range(rows.count())}
    assert scales == {"2¹⁶ = 65,536"}
    assert int(page.get_attribute("#said", "data-value")) == 13 > with_update
    page.locator("#attempts button").nth(15).press("Enter")
    page.locator("#attempts button").nth(15).press("Enter")  # large, huge, small again
    assert int(page.get_attribute("#said", "data-value")) == 12
    page.context.close()


def test_token_counts_move_the_one_mean_and_leave_the_other(chromium: Any, folder: Path) -> None:
    means = record()["pictures"]["token-means"]["means"]
    page = opened(chromium, folder / "see-token-means.html").page

    def told() -> list[float]:
        return [float(page.get_attribute(name, "data-value")) for name in ("#token", "#means")]

    assert told() == means["100,10"]
    page.locator("[name=size]").nth(1).check()
    page.focus("#count-2")
    page.keyboard.press("End")
    assert told() == means["100,10,200"]
    page.context.close()


@pytest.mark.parametrize("name", ["finite", "overflow"])
def test_each_stage_of_an_update_shows_the_runs_values(chromium: Any, folder: Path, name: str) -> None:
    stages = record()["pictures"]["one-update"]["attempts"][name]
    page = opened(chromium, folder / "see-one-update.html").page
    page.locator(f"[name=attempt][value={name}]").check()
    page.focus("#on")
    for stage in stages:
        for field in ("gradient", "scale", "weights", "attempts", "updates", "skips", "ticks", "rate"):
            assert json.loads(page.get_attribute(f"#values [data-name={field}]", "data-value")) == stage[field]
        page.keyboard.press("Enter")
    assert page.text_content("#where") == f"stage {len(stages)} of {len(stages)}"
    page.context.close()


def test_a_right_and_a_wrong_number_are_told_apart_and_kept_with_their_confidence(chromium: Any, folder: Path) -> None:
    ask = next(lab for lab in record()["labs"] if lab["name"] == "clip-order")["asks"][0]
    page = opened(chromium, folder / "clip-order.html").page
    form = page.locator(".ask").first
    assert not page.is_visible("#told .claim")
    form.locator("[type=submit]").click()
    assert "Write a number" in form.locator(".missing").text_content()
    assert form.locator(".reply").text_content() == ""
    form.locator("[name=number]").fill("1/1024")  # the tempting one
    form.locator("[name=sure][value='4']").check()
    form.locator("[name=number]").press("Enter")
    reply = form.locator(".reply").text_content()
    assert ask["why"] in reply
    assert f"Your 0.0009765625 {ask['tempting'][0]['why']}" in reply
    assert page.evaluate(KEPT) == {"clip-order/right": {"sure": 4, "right": 0}}
    assert page.evaluate(CONTRAST)[1] == []
    assert page.evaluate("document.activeElement.className") == "verdict wrong"
    page.reload()
    assert "0 % right, confidence 4" in form.locator(".earlier").text_content()
    form.locator("[name=number]").fill("2e-1")
    form.locator("[type=submit]").click()
    assert form.locator(".verdict").text_content() == "✓ Right"
    assert page.evaluate(KEPT) == {"clip-order/right": {"sure": None, "right": 1}}
    page.context.close()


def test_every_kind_of_exercise_answered_rightly_is_right(chromium: Any, folder: Path) -> None:
    kinds = set()
    for lab in record()["labs"]:
        if not FULL and lab["name"] not in ("bits", "mean-of-means"):  # every kind is among theirs
            continue
        page = opened(chromium, folder / f"{lab['name']}.html").page
        for place, ask in enumerate(lab["asks"]):
            answer(page.locator(".ask").nth(place), ask)
            kinds.add((ask["kind"], ask.get("eliminate")))
        kept = page.evaluate(KEPT)
        assert {name: each["right"] for name, each in kept.items()} == {f"{lab['name']}/{ask['key']}": 1 for ask in lab["asks"]}
        assert page.is_visible("#told .claim")  # all are answered: it opens
        page.context.close()
    assert kinds >= {("number", None), ("choice", False), ("choice", True), ("column", None), ("buckets", None), ("open", None)}


def answer(form: Any, ask: dict[str, Any]) -> None:
    """What the record has as right, as a learner would give it."""
    if ask["kind"] == "number":
        form.locator("[name=number]").fill(repr(ask["answer"]))
    elif ask["kind"] == "choice" and ask["eliminate"]:
        for place, option in enumerate(ask["options"]):
            if not option["right"]:
                form.locator(f"[data-option='{place}']").click()
        return
    elif ask["kind"] == "choice":
        right = next(place for place, option in enumerate(ask["options"]) if option["right"])
        form.locator(f"[name=option][value='{right}']").check()
    elif ask["kind"] == "column":
        for place, row in enumerate(ask["rows"]):
            form.locator("[name=cell]").nth(place).fill(str(row[ask["blank"]]))
    elif ask["kind"] == "buckets":
        for place, item in enumerate(ask["items"]):
            form.locator("[name=item]").nth(place).select_option(item["bucket"])
    form.locator("[type=submit]").click()
    if ask["kind"] == "open":
        for place in range(len(ask["rubric"])):
            form.locator(".rubric input").nth(place).check()
        form.locator(".reply button").click()


def test_the_map_says_why_by_keyboard_and_confidence_is_counted(chromium: Any, folder: Path) -> None:
    page = opened(chromium, folder / "index.html").page
    page.focus(".plan.wide [data-lab=mean-of-means]")
    why = next(lab for lab in record()["labs"] if lab["name"] == "mean-of-means")["after"][0]["why"]
    assert why in page.text_content("#why")
    assert page.locator(".plan.wide .arrows .on").count() == 1
    page.evaluate(
        "localStorage.setItem('truestep-labs', JSON.stringify({'bits/a': {sure: 5, right: 1}, 'bits/b': {sure: 5, right: 0}}))"
    )
    page.reload()
    row = page.locator("#calibration tbody tr").nth(4)
    assert row.locator("td").all_text_contents()[:3] == ["5", "2", "50 %"]
    assert "2 of" in page.locator("li", has=page.locator("[data-lab-done=bits]")).text_content()
    page.click("#forget")
    assert page.evaluate(KEPT) is None
    page.context.close()


def test_a_picture_is_drawn_for_the_width_of_paper_and_again_for_the_screen(chromium: Any, folder: Path) -> None:
    page = opened(chromium, folder / "see-number-line.html").page
    widths = "['.canvas', '.canvas svg'].map(name => document.querySelector(name).getBoundingClientRect().width)"
    screen = page.evaluate(widths)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    paper = page.evaluate(widths)
    assert paper[0] == paper[1] == 680 < screen[0]
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(widths) == screen
    page.context.close()


def test_paper_shows_all_and_without_scripts_the_claim_is_there(chromium: Any, folder: Path) -> None:
    page = opened(chromium, folder / "clip-order.html").page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.is_visible("#told .claim")
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.context.close()
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((folder / "clip-order.html").as_uri())
    assert page.is_visible("#told .claim")
    assert page.is_visible("noscript p")
    assert not page.is_visible(".ask")
    context.close()
