"""Reads the surroundings of a run: versions, machine, threads, device, commit."""

from __future__ import annotations

import functools
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import torch


def environment(device: torch.device | None = None) -> dict[str, Any]:
    """Where this process runs, as JSON values; None stands for what could not be told.

    `device` is named by its model; without one, that is the CUDA device where there is one, else "cpu". `commit` is that of the
    working directory's git repository, with "-dirty" where tracked files differ from it.
    """
    return {
        "truestep": metadata.version("truestep"),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu(),
        "threads": torch.get_num_threads(),
        "device": _name(device or torch.device("cuda" if torch.cuda.is_available() else "cpu")),
        "commit": _commit(Path.cwd()),
    }


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


@functools.cache
def _cpu() -> str | None:
    """The processor's model name, which the standard library tells on some systems only."""
    try:
        listed = Path("/proc/cpuinfo").read_text()
    except OSError:  # only Linux lists its processors there
        listed = ""
    names = [line.partition(":")[2].strip() for line in listed.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor() or None


@functools.cache
def _commit(folder: Path) -> str | None:
    """The commit checked out around `folder`, asked once; None without git, a repository or a quick answer."""
    command = ["git", "--no-optional-locks", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):  # no git, or one that does not answer
        return None
    return answer.stdout.strip() or None
