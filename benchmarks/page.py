"""What a comparison's page costs: 3 candidates x 10 seeds x 2,000 attempts, built from invented records and opened in Chromium.

usage: page.py [ATTEMPTS [SEEDS]]      (default 2000 and 10)
Prints the seconds to build the page, its bytes, and two times from asking Chromium for it, each the median and the range of five
fresh windows without an accelerator: to the first paint, and to a frame that shows every figure, those far below the first
screen too. It has to be ready in 2 s and below 6 MB. Needs Chromium and playwright, as tests/pages/test_browser.py does.
"""

from __future__ import annotations

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


FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"


def opened_seconds(browser: Any, page: Path) -> tuple[float, float]:
    """To the first paint and to the frame after the last figure, in a window of its own."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    window = context.new_page()
    begun = time.perf_counter()
    window.goto(page.as_uri())
    window.wait_for_function("document.documentElement.dataset.drawn === 'true'", timeout=60_000)
    window.evaluate(FRAME)
    took = time.perf_counter() - begun
    assert window.evaluate("[...document.querySelectorAll('.drawing')].every(holder => holder.querySelector('svg .trace'))")
    painted = float(window.evaluate(PAINT))
    context.close()
    return painted, took


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
        painted, ready = zip(*(opened_seconds(browser, page) for _ in range(WINDOWS)), strict=True)
        browser.close()
    print(f"3 candidates x {seeds} seeds x {attempts} attempts")
    print(f"built     {built:.2f} s")
    print(f"size      {size / 1e6:.2f} MB")
    for name, times in (("painted", painted), ("ready", ready)):
        print(f"{name:9} {statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f}, {WINDOWS} windows)")
    return int(statistics.median(ready) > READY_SECONDS or size > MOST_BYTES)


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
