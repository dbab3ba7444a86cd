"""The states of the global random generators: torch's on the CPU and on every CUDA device, Python's and NumPy's."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def random_state() -> dict[str, Any]:
    """Tensors, numbers and texts: torch.load(weights_only=True) takes them. CUDA's only where this process uses CUDA."""
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
    for device, cuda in enumerate(state["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(cuda, device)
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))


def _uses_cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]  # torch's is untyped


def absent(state: Mapping[str, Any] | None) -> tuple[str, ...]:
    """The generators of `state` that this process has no device for."""
    if state is None:
        return ()
    return tuple(f"random state of cuda:{device}" for device in range(torch.cuda.device_count(), len(state["cuda"])))
