"""What a comparison's page costs: 3 candidates x 10 seeds x 2,000 attempts, built from invented records and opened in Chromium.

usage: page.py [ATTEMPTS [SEEDS]]      (default 2000 and 10)
Prints the seconds to build the page, its bytes, the machine's load, and three times from asking Chromium for the page, each the
median and the range of five fresh windows of 1280 x 900 pixels without an accelerator: to the first paint (words, tables,
verdicts), to the figures that begin within the first two screens (the first one, if none does), and to every figure, the page
scrolled from one to the next without a pause. The last two are given twice: as they passed, which grows with what else the
machine does, and as processor time of the process that draws the page, all its threads together, which does not. It has to open
(the nearest figures, in processor time) in 2 s and stay below 6 MB. Needs Chromium and playwright, as
tests/pages/test_browser.py does.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # the invented records are those of the tests

from tests.pages import made
from truestep.pages.comparison import write

READY_SECONDS, MOST_BYTES, WINDOWS = 2.0, 6_000_000, 5
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]

HELPERS = """
window.frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
window.shown = async holder => { while (!("drawn" in holder.dataset)) await frame(); };
window.drawings = () => [...document.querySelectorAll(".drawing")];
"""
NEAR = """async () => {
    const near = drawings().filter((holder, k) => k === 0 || holder.getBoundingClientRect().top < 2 * innerHeight);
    for (const holder of near) await shown(holder);
    await frame();
    return performance.getEntriesByName("first-contentful-paint")[0].startTime / 1000;
}"""
REST = """async () => {
    for (const holder of drawings()) { holder.scrollIntoView({ block: "center", behavior: "instant" }); await shown(holder); }
    await frame();
    return drawings().every(holder => holder.querySelector("svg .trace"));
}"""


def drawing_seconds(browser: Any) -> float:
    """Processor time of the processes that draw pages, since the browser began."""
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return float(sum(process["cpuTime"] for process in found if process["type"] == "renderer"))


def opened_seconds(browser: Any, page: Path) -> dict[str, float]:
    """To the first paint, to a frame with the figures of two screens and to one with all figures, in a window of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    window = context.new_page()
    window.add_init_script(HELPERS)
    idle, begun = drawing_seconds(browser), time.perf_counter()
    window.goto(page.as_uri(), wait_until="commit")
    window.wait_for_load_state("domcontentloaded")
    painted = float(window.evaluate(NEAR))
    near, near_drawing = time.perf_counter() - begun, drawing_seconds(browser) - idle
    assert window.evaluate(REST)
    every, every_drawing = time.perf_counter() - begun, drawing_seconds(browser) - idle
    context.close()
    return {
        "painted": painted,
        "2 screens": near,
        "scrolled": every,
        "2 screens, processor": near_drawing,
        "scrolled, processor": every_drawing,
    }


def main(attempts: int = 2000, seeds: int = 10) -> int:
    """Build, open, measure; 1 where the page is too slow or too large."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only this needs it

    weights = {str(seed): f"{seed:064x}" for seed in range(seeds)}
    declared: dict[str, Any] = {"candidates": ("fp32", "bf16", "fp16"), "seeds": tuple(range(seeds)), "initial_weights": weights}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        out = made.comparison(Path(folder) / "out", attempts=attempts, budget_attempts=attempts, **declared)
        begun = time.perf_counter()
        page = write(out)
        built, size = time.perf_counter() - begun, page.stat().st_size
        path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        opened = [opened_seconds(browser, page) for _ in range(WINDOWS)]
        browser.close()
    print(f"3 candidates x {seeds} seeds x {attempts} attempts; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'built':20}  {built:.2f} s")
    print(f"{'size':20}  {size / 1e6:.2f} MB")
    for name in opened[0]:
        times = [one[name] for one in opened]
        print(f"{name:20}  {statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f}, {WINDOWS} windows)")
    ready = statistics.median(one["2 screens, processor"] for one in opened)
    return int(ready > READY_SECONDS or size > MOST_BYTES)


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
