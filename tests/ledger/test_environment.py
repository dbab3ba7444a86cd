"""The surroundings are told, and what cannot be told is absent."""

import json
import platform
import subprocess
from pathlib import Path

import pytest
import torch

from truestep.ledger import environment as module


def test_versions_machine_and_threads_are_told_as_plain_json() -> None:
    found = module.environment()
    assert json.loads(json.dumps(found)) == found
    assert found["torch"] == str(torch.__version__)
    assert found["python"] == platform.python_version()
    assert found["threads"] == torch.get_num_threads()
    assert all(found[name] for name in ("truestep", "platform", "device"))


def test_a_folder_outside_any_repository_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert module.environment()["commit"] is None


def test_the_commit_says_when_files_differ_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    git("init")
    (tmp_path / "train.py").write_text("1")
    git("add", "train.py")
    git("commit", "-m", "first")
    commit = git("rev-parse", "HEAD").strip()
    monkeypatch.chdir(tmp_path)
    assert module.environment()["commit"] == commit
    (tmp_path / "train.py").write_text("2")
    module._commit.cache_clear()
    assert module.environment()["commit"] == f"{commit}-dirty"
