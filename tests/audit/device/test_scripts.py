"""Scripts written for CUDA, run on the CPU: each ends with the weights of the same script written for the CPU, bit for bit."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
import torch

from tests import ready
from tests.audit.device.twins import SCRIPTS, twin

NAMES = sorted(path.name for path in SCRIPTS.glob("*.py"))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the weights of every script: for CUDA, for the CPU, and for CUDA under a function mode."""
    folder = tmp_path_factory.mktemp("scripts")
    jobs = []
    for name in NAMES:
        (folder / f"cpu_{name}").write_text(twin(name))
        for script, out, cuda, mode in (
            (SCRIPTS / name, "cuda", True, False),
            (folder / f"cpu_{name}", "cpu", False, False),
            (SCRIPTS / name, "mode", True, True),
        ):
            ranks = 2 if name == "ranks.py" else 1
            jobs.append(
                {"script": str(script), "out": str(folder / f"{name}.{out}.pt"), "cuda": cuda, "mode": mode, "ranks": ranks}
            )
    (folder / "jobs.json").write_text(json.dumps(jobs))
    room = Path(__file__).with_name("room.py")
    ended = ready.run(str(room), str(folder / "jobs.json"))
    assert ended.returncode == 0, ended.stderr
    return folder


def weights(results: Path, name: str, how: str) -> dict[str, torch.Tensor]:
    logs = "".join(log.read_text() for log in sorted(results.glob(f"{name}.{how}.*.log")))
    assert (results / f"{name}.{how}.code").read_text() == "0", logs
    return torch.load(results / f"{name}.{how}.pt")


@pytest.mark.parametrize("name", NAMES)
def test_a_script_for_cuda_ends_with_the_weights_of_the_same_script_for_the_cpu(results: Path, name: str) -> None:
    ours, theirs = weights(results, name, "cuda"), weights(results, name, "cpu")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    assert all(value.isfinite().all() for value in ours.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_function_mode_on_the_stack_changes_nothing(results: Path, name: str) -> None:
    ours, theirs = weights(results, name, "mode"), weights(results, name, "cuda")
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


@pytest.mark.parametrize("name", NAMES)
def test_each_kind_of_replacement_is_told_once(results: Path, name: str) -> None:
    weights(results, name, "cuda")
    told = json.loads((results / f"{name}.cuda.0.told").read_text())
    whats = [what for what, _ in told]
    assert len(whats) == len(set(whats))
    assert "autocast('cuda') -> autocast('cpu')" in whats
    assert "GradScaler('cuda') -> GradScaler('cpu')" in whats


@pytest.mark.parametrize("name", NAMES)
def test_the_script_for_the_cpu_is_the_same_program(name: str) -> None:
    loops = [
        sum(isinstance(node, ast.For) for node in ast.walk(ast.parse(text)))
        for text in (twin(name), (SCRIPTS / name).read_text())
    ]
    assert loops[0] == loops[1]
