"""The random state of one moment, to be returned to: torch's, Python's, and NumPy's where anything was drawn from it since."""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from truestep.engine.randomness import TorchRandomState

_KEYS = 624
"""32-bit words of a Mersenne twister, which its place among them follows."""


@dataclass(frozen=True)
class _NumPys:
    """NumPy's generator at one moment.

    To read or write its state takes NumPy 30 microseconds, word by word, and a verification would do so three times a window. The
    memory where it lies tells in one whether anything was drawn.
    """

    state: Any
    memory: bytes | None
    """None where it does not tell: another generator, or half a pair of normal numbers that is kept elsewhere."""

    @staticmethod
    def now() -> _NumPys:
        """The present one."""
        state: Any = np.random.get_state(legacy=False)
        memory = _memory()
        telling = memory is not None and not state["has_gauss"] and memory == _words(state["state"])
        return _NumPys(state, memory if telling else None)

    @property
    def is_now(self) -> bool:
        """Whether it is known that nothing was drawn since."""
        return self.memory is not None and self.memory == _memory()


@dataclass(frozen=True)
class Draws:
    """The states of the global generators at one moment: torch's of the CPU and one device, Python's, NumPy's."""

    torchs: TorchRandomState
    pythons: Any
    numpys: _NumPys

    @staticmethod
    def now(device: torch.device) -> Draws:
        """The present ones."""
        return Draws(TorchRandomState.now(device), random.getstate(), _NumPys.now())

    def again(self) -> Draws:
        """The present ones, where these are an earlier moment's: what has not moved is not read again."""
        numpys = self.numpys if self.numpys.is_now else _NumPys.now()
        return Draws(TorchRandomState.now(self.torchs.device), random.getstate(), numpys)

    def restore(self) -> None:
        """Make these the present states."""
        self.torchs.restore()
        random.setstate(self.pythons)
        if not self.numpys.is_now:
            np.random.set_state(self.numpys.state)


def _memory() -> bytes | None:
    """Of NumPy's global generator; None for one that is no Mersenne twister."""
    generator = np.random.get_bit_generator()  # type: ignore[attr-defined]  # numpy's stubs lack it
    if not isinstance(generator, np.random.MT19937):
        return None
    return ctypes.string_at(generator.ctypes.state_address, 4 * (_KEYS + 1))


def _words(twister: Any) -> bytes:
    """What lies there, by the state that NumPy tells."""
    found: bytes = np.append(twister["key"], np.uint32(twister["pos"])).tobytes()
    return found
