"""The documentation builds without a broken link, and asks the network for nothing: from a folder of files, search included."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")


def built(config, out):
    """What `mkdocs build --strict` says of a site, and its exit code."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config), "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    out = tmp_path_factory.mktemp("site")
    code, said = built(ROOT / "mkdocs.yml", out)
    assert code == 0, said
    return out


def test_a_page_asks_nothing_of_another_place(site):
    """Links may lead elsewhere; what a page loads by itself may not."""
    loads = re.compile(
        r'<(?:script|img|iframe|source)[^>]+src="?(?:https?:)?//|<link[^>]+rel="?(?!canonical)[^>]+href="?(?:https?:)?//'
    )
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    assert [page.name for page in pages if loads.search(page.read_text())] == []


def test_every_page_is_in_the_navigation_and_no_script_is_in_the_site(site):
    pages = {file.relative_to(ROOT / "docs").with_suffix(".html") for file in (ROOT / "docs").rglob("*.md")}
    assert pages <= {file.relative_to(site) for file in site.rglob("*.html")}
    assert list(site.rglob("*.py")) == []


@pytest.mark.parametrize("broken", ["[a](nowhere.md)", "[a](index.md#nowhere)"])
def test_a_broken_link_fails(broken, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Title\n\n{broken}\n")
    validation = (ROOT / "mkdocs.yml").read_text().split("validation:")[1].split("nav:\n  -")[0]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: one\nvalidation:{validation}")
    code, said = built(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert code == 1
    assert "nowhere" in said


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")
def test_search_works_from_a_folder_of_files(site):
    playwright = pytest.importorskip("playwright.sync_api")
    asked, said = [], []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.on("request", lambda request: request.url.startswith(("file:", "data:", "blob:")) or asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((site / "index.html").as_uri())
        page.locator("input.md-search__input").click()
        page.keyboard.type("mean of means")
        page.locator(".md-search-result__item").first.wait_for()
        found = page.locator(".md-search-result__item a").first.get_attribute("href")
        browser.close()
    assert found.startswith("file:")
    assert (asked, said) == ([], [])
