"""Which devices are CUDA's, who asks, and telling each kind of replacement once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

CPU = torch.device("cpu")


class Once:
    """Passes on what it was not told before; the reason is of the first time."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def __call__(self, what: str, why: str) -> None:
        """Tells of one kind of replacement."""
        if what not in self._told:
            self._told.add(what)
            self._tell(what, why)


def is_cuda(device: Any) -> bool:
    """Whether `device` names a CUDA device. A bare index does, the -1 that `get_device()` gives for the CPU included.

    >>> is_cuda("cuda:1"), is_cuda(0), is_cuda(torch.device("cuda")), is_cuda("cpu"), is_cuda(None)
    (True, True, True, False, False)
    """
    kind = device.__class__
    if kind is str:
        return bool(device == "cuda" or device.startswith("cuda:"))
    if kind is torch.device:
        return bool(device.type == "cuda")
    return kind is int


def torch_asks() -> bool:
    """Whether the function that asks this was called by torch's own code, which is told the truth."""
    return str(sys._getframe(2).f_globals.get("__name__", "")).partition(".")[0] == "torch"
