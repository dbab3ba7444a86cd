"""The example tasks on data of one's own read what a test writes, and a race can be run on it."""

import importlib.util
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from truestep.run import Settings, train
from truestep.tasks import Task, load

EXAMPLES = Path(__file__).parents[2] / "examples"
TWENTY = Settings(policy="bf16", device="cpu", budget_attempts=20, threads=1)


def loaded(task: str, folder: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Task, ModuleType]:
    """The example's task on `folder`, and its module."""
    monkeypatch.setenv(variable, str(folder))
    found = load(str(EXAMPLES / task))
    return found, sys.modules[type(found).__module__]


@pytest.mark.parametrize(
    ("task", "variable", "write", "package"),
    [
        ("image_folder.py:Images", "IMAGE_FOLDER", "paint", "PIL"),
        ("saved_dataset.py:Texts", "SAVED_DATASET", "write", "datasets"),
    ],
)
def test_a_run_on_local_data_learns_and_knows_its_data(
    task: str, variable: str, write: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    found, module = loaded(task, tmp_path / "data", variable, monkeypatch)
    getattr(module, write)(tmp_path / "data")
    record = train(found, TWENTY, seed=0)
    assert (record.status, record.counts.completed, record.data_digest) == ("budget", 20, found.digest())
    assert record.last is not None
    assert record.last > 0.9


def test_an_image_is_read_as_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images: Any = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    (tmp_path / "red").mkdir()
    images.new("RGB", (5, 7), (255, 0, 0)).save(tmp_path / "red" / "a.png")
    _, module = loaded("image_folder.py:Images", tmp_path, "IMAGE_FOLDER", monkeypatch)
    pixels, place = module.Folder(tmp_path)[0]
    assert place == 0
    assert torch.equal(pixels, torch.tensor([1.0, -1.0, -1.0]).view(3, 1, 1).expand(3, 32, 32))


def test_splits_of_different_classes_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for split, name in {"train": "a", "val": "b", "test": "a"}.items():
        (tmp_path / split / name).mkdir(parents=True)
    found, _ = loaded("image_folder.py:Images", tmp_path, "IMAGE_FOLDER", monkeypatch)
    with pytest.raises(ValueError, match="different classes"):
        found.splits()


def test_without_the_package_the_example_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("datasets") is not None:
        pytest.skip("the package datasets is installed")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"^this example reads with the package datasets: pip install datasets$"):
        runpy.run_path(str(EXAMPLES / "saved_dataset.py"), run_name="__main__")
    with pytest.raises(ModuleNotFoundError):
        load(str(EXAMPLES / "saved_dataset.py:Texts")).splits()
