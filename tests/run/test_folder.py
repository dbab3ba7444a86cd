"""A run's folder is its own from its ledger on, wherever the process goes."""

from pathlib import Path

import pytest

from truestep.errors import RecordError
from truestep.run import Settings
from truestep.run.folder import CHECKPOINTS, LEDGER, RunFolder, asked_of, settings_in


def opened(path: Path, *, seed: int = 0, resume: bool = False) -> RunFolder:
    return RunFolder.opened(path, asked_of("line", Settings(), seed=seed, device="cpu"), resume=resume)


def test_a_run_that_came_to_no_ledger_is_begun_anew_by_any_command(tmp_path: Path) -> None:
    first = opened(tmp_path / "run")
    (tmp_path / "run" / CHECKPOINTS).mkdir()
    del first
    again = opened(tmp_path / "run", seed=1)
    assert not again.begun
    assert settings_in(tmp_path / "run")["seed"] == 1


@pytest.mark.parametrize("name", [LEDGER, f"{CHECKPOINTS}/attempt-00000001.ckpt"])
def test_a_run_that_has_a_ledger_or_a_checkpoint_is_gone_on_with_as_it_was_asked_or_refused(tmp_path: Path, name: str) -> None:
    opened(tmp_path / "run")
    (tmp_path / "run" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "run" / name).write_bytes(b"")
    with pytest.raises(RecordError, match="holds this run already"):
        opened(tmp_path / "run")
    with pytest.raises(RecordError, match="its seed is 0"):
        opened(tmp_path / "run", seed=1, resume=True)
    assert opened(tmp_path / "run", resume=True).begun


def test_a_folder_that_was_given_relative_stays_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = opened(Path("run"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    folder.withdraw()
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
