"""Whose code a file is goes by where packages are installed, wherever torch is."""

import importlib
import site
import sysconfig
from pathlib import Path

import pytest
import torch

from truestep.probe import owners


def test_torchs_own_folder_is_machinery_wherever_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "getsitepackages", list)
    monkeypatch.setattr(site, "getusersitepackages", lambda: "/nowhere")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: "/nowhere")
    monkeypatch.setattr(torch, "__file__", f"{tmp_path}/torch/__init__.py")
    spec = importlib.util.spec_from_file_location("owners_elsewhere", owners.__file__)
    assert spec is not None and spec.loader is not None  # noqa: PT018 - for the checker of types
    elsewhere = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(elsewhere)
    assert elsewhere.OWNERS[f"{tmp_path}/torch/_ops.py"] == "machinery"
    assert elsewhere.OWNERS[f"{tmp_path}/_ops.py"] == "user"
