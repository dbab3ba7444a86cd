"""Draws docs/images/report-light.png and report-dark.png: the first screen of a comparison's report, as a browser shows it.

    python docs/picture.py [REPORT.html]     (demo/report.html, which `make demo` writes)

Needs a Chromium on the path, and the development tools.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).with_name("images")
WIDTH, HEIGHT = 1180, 860
LIMIT_BYTES = 300_000


def draw(report: Path) -> None:
    """Both pictures, by the reader's colour scheme."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        for scheme in ("light", "dark"):
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme)
            page.goto(report.resolve().as_uri())
            page.evaluate("document.fonts.ready")  # the first screen has words alone: figures are drawn as they come near
            file = IMAGES / f"report-{scheme}.png"
            page.screenshot(path=file)
            assert file.stat().st_size < LIMIT_BYTES, f"{file} has {file.stat().st_size} bytes"
        browser.close()


if __name__ == "__main__":
    draw(Path(*sys.argv[1:] or ["demo/report.html"]))
