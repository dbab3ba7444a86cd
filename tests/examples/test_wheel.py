"""The wheel that a user installs holds every file of the package: templates and rules as well as modules."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.build import build_wheel

ROOT = Path(__file__).parents[2]
CACHES = {"__pycache__", ".mypy_cache", ".ruff_cache"}


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the hook that pip calls builds what it stands in
    sources = [path for path in (ROOT / "src").rglob("*") if path.is_file() and not CACHES.intersection(path.parts)]
    with ZipFile(tmp_path / build_wheel(str(tmp_path))) as wheel:
        held = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == {path.relative_to(ROOT / "src").as_posix(): path.read_bytes() for path in sources}
    assert {Path(name).suffix for name in held} > {".py", ".html", ".txt", ".yaml"}
