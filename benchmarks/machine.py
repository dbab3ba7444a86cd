"""What was measured on: processor, memory, system, versions, and how much else the machine does."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

PACKAGES = ("torch", "numpy", "accelerate", "lightning-fabric", "transformers", "traincheck")


def processor() -> str:
    """The processor's name and its cores."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{named[0] if named else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def memory_gigabytes() -> float:
    """Of the whole machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def accelerator() -> str:
    """The CUDA device that torch finds first."""
    try:
        import torch  # noqa: PLC0415 - what is without it can be told too
    except ImportError:
        return "no torch"
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"


def versions(packages: Sequence[str] = PACKAGES) -> str:
    """Python's, and those of the packages that are compared; "absent" for one that is not installed."""
    return ", ".join([f"Python {platform.python_version()}", *(f"{package} {_version(package)}" for package in packages)])


def load() -> str:
    """The mean number of processes that want to run, over 1, 5 and 15 minutes."""
    return ", ".join(f"{each:.1f}" for each in os.getloadavg())


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"
