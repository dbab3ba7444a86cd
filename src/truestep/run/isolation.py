"""The seed of all that a task's code may draw from, and the threads that belong to a run alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def seed_all(seed: int, device: torch.device) -> None:
    """Seed torch on the CPU and on `device`, numpy and Python's random, for a task's code may draw from any."""
    torch.default_generator.manual_seed(seed)  # torch.manual_seed formats a stack for CUDA each time: 4 ms
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


@contextmanager
def own_threads(threads: int | None) -> Iterator[None]:
    """`threads` threads for torch's operators inside; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
