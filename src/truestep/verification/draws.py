"""The random state of one moment, to be returned to: torch's; Python's and NumPy's where anything was drawn from it since."""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from truestep.engine.randomness import TorchRandomState

_WORDS = 4 * 625
"""Bytes of a Mersenne twister: 624 words and its place among them, at one end."""
_END = 64
"""Bytes of that end which are compared: a draw moves the place, and once it has come round all words are new."""


class _Twister(NamedTuple):
    """A global generator outside of torch, as long as it is a Mersenne twister.

    To read or write its state takes Python 10 microseconds and NumPy 30, word by word, and a verification would do so three times
    a window. The memory where it lies tells at once whether anything was drawn.
    """

    beside: Callable[[], object]
    """What else tells that it is the same, by being one object: the generator itself, or a number that it keeps for later."""
    read: Callable[[], Any]
    write: Callable[[Any], None]
    address: Callable[[], int | None]
    """Where its words and its place lie at present; None where nobody knows."""
    told: Callable[[Any], bytes]
    """The same bytes by its state."""
    half: Callable[[Any], bool]
    """Whether its state holds more than these bytes: the other half of a pair of normal numbers, for the next call."""
    end: int
    """Where among these bytes the end with the place begins."""


class _Moment:
    """One generator at one moment."""

    def __init__(self, twister: _Twister) -> None:
        self._twister, self._state, self._beside = twister, twister.read(), twister.beside()
        address = twister.address()
        self._words = None if address is None else ctypes.string_at(address, _WORDS)
        self._seen: Any = None
        if address is not None and self._words == twister.told(self._state) and not twister.half(self._state):
            self._seen = (ctypes.c_char * _END).from_address(address + twister.end)
            self._end = self._seen.raw

    @property
    def is_now(self) -> bool:
        """Whether it is known that nothing was drawn since. The memory of a generator that was replaced may be gone."""
        return self._seen is not None and self._twister.beside() is self._beside and self._seen.raw == self._end

    def again(self) -> _Moment:
        """The present one: this very one where nothing was drawn."""
        if self.is_now:
            return self
        now = _Moment(self._twister)
        if now._words == self._words:  # what was drawn is a half that was kept, and these words do not show it
            now._seen = None
        return now

    def restore(self) -> None:
        """Make this the present one."""
        if not self.is_now:
            self._twister.write(self._state)


class Draws(NamedTuple):
    """The states of the global generators at one moment: torch's of the CPU and one device, Python's, NumPy's."""

    torchs: TorchRandomState
    pythons: _Moment
    numpys: _Moment

    @staticmethod
    def now(device: torch.device) -> Draws:
        """The present ones."""
        return Draws(TorchRandomState.now(device), _Moment(_PYTHONS), _Moment(_NUMPYS))

    def again(self) -> Draws:
        """The present ones, where these are an earlier moment's: what has not moved is not read again."""
        return Draws(TorchRandomState.now(self.torchs.device), self.pythons.again(), self.numpys.again())

    def restore(self) -> None:
        """Make these the present states."""
        for each in self:
            each.restore()


def _pythons_address() -> int | None:
    """Behind the head of its object, in CPython, where the object is as long as that."""
    known = sys.implementation.name == "cpython" and type(_PYTHON) is random.Random
    return id(_PYTHON) + object.__basicsize__ if known and _PYTHON.__sizeof__() >= object.__basicsize__ + _WORDS else None


def _told_by_python(state: Any) -> bytes:
    *words, place = state[1]
    return np.array([place, *words], np.uint32).tobytes()


def _numpys_address() -> int | None:
    """As it says itself, where it is a Mersenne twister."""
    generator = np.random.get_bit_generator()  # type: ignore[attr-defined]  # numpy's stubs lack it
    return generator.ctypes.state_address if isinstance(generator, np.random.MT19937) else None


def _told_by_numpy(state: Any) -> bytes:
    return np.append(state["state"]["key"], np.uint32(state["state"]["pos"])).tobytes()


_PYTHON = getattr(random.getstate, "__self__", None)
"""The object that the functions of `random` are methods of."""
_PYTHONS = _Twister(
    beside=lambda: getattr(_PYTHON, "gauss_next", None),
    read=random.getstate,
    write=random.setstate,
    address=_pythons_address,
    told=_told_by_python,
    half=lambda state: state[2] is not None,
    end=0,
)
_NUMPYS = _Twister(
    beside=np.random.get_bit_generator,  # type: ignore[attr-defined]  # numpy's stubs lack it
    read=lambda: np.random.get_state(legacy=False),
    write=np.random.set_state,
    address=_numpys_address,
    told=_told_by_numpy,
    half=lambda state: bool(state["has_gauss"]),
    end=_WORDS - _END,
)
