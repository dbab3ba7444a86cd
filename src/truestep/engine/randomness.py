"""The states of the global random generators, torch's, Python's and NumPy's: captured, put back, kept from what runs inside."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor


class TorchRandomState(NamedTuple):
    """The states of torch's generators: the CPU's, and that of the model's CUDA device.

    Every attempt captures them, for a replay that hardly ever comes, and captures no others: these cost it a microsecond, and
    Python's and NumPy's would cost forty. A replay draws from those two anew.
    """

    cpu: Tensor
    device: torch.device
    cuda: Tensor | None

    @staticmethod
    def now(device: torch.device) -> TorchRandomState:
        """A copy of the present states."""
        cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        return TorchRandomState(torch.default_generator.get_state(), device, cuda)

    def restore(self) -> None:
        """Make these the present states."""
        torch.default_generator.set_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)


@dataclass(frozen=True)
class Drawn:
    """The states of torch's generators of the CPU and one device, Python's and NumPy's, as they are: for this process alone.

    A third of what `random_state` and `set_random_state` cost, which a checkpoint needs.
    """

    torchs: TorchRandomState
    pythons: Any
    numpys: Any

    @staticmethod
    def now(device: torch.device) -> Drawn:
        """The present states."""
        return Drawn(TorchRandomState.now(device), random.getstate(), np.random.get_state(legacy=False))  # half the time

    def restore(self) -> None:
        """Make these the present states."""
        self.torchs.restore()
        random.setstate(self.pythons)
        np.random.set_state(self.numpys)


@contextmanager
def own_random_state(device: torch.device) -> Iterator[None]:
    """Whatever is drawn or seeded inside leaves no trace: in torch's generators of the CPU and `device`, Python's and NumPy's."""
    drawn = Drawn.now(device)
    try:
        yield
    finally:
        drawn.restore()


def random_state() -> dict[str, Any]:
    """All of them, torch's of every CUDA device where this process uses CUDA, as torch.load(weights_only=True) takes them."""
    name, keys, *rest = np.random.get_state()
    return {
        "cpu": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if _uses_cuda() else [],
        "python": random.getstate(),
        "numpy": (name, torch.from_numpy(np.asarray(keys, dtype=np.int64)), *rest),
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """Make these the present states; those of CUDA devices that are not there are left out, as `absent` tells."""
    torch.set_rng_state(state["cpu"])
    if state["cuda"]:  # to count devices takes longer than all else here
        for device, cuda in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(cuda, device)
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))


def absent(state: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The generators of `state` that this process has no device for."""
    if state is None:
        return ()
    return tuple(f"random state of cuda:{device}" for device in range(torch.cuda.device_count(), len(state["cuda"])))


def _uses_cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch's is untyped
