"""The one wait of an attempt for its device: numbers that lie there, brought to the host together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def to_host(numbers: Sequence[float | Tensor]) -> list[float]:
    """`numbers` as floats, in their order: those that are tensors of one element in a single wait for their device.

    On CUDA they are copied without blocking into pinned memory behind all that is queued, and the event after the copy is waited
    for: nothing else of the queue is, and torch.cuda.set_sync_debug_mode("error") has nothing to object to. Float64 all the way.
    What lies on the CPU beside them, as a learning rate or a loss may, is read where it lies.

    >>> to_host([2.0, torch.tensor(0.5), torch.tensor([True])])
    [2.0, 0.5, 1.0]
    """
    far = [number.detach() for number in numbers if isinstance(number, Tensor) and number.device.type == "cuda"]
    fetched = iter(_fetched(far) if far else ())
    return [
        number if isinstance(number, float) else next(fetched) if number.device.type == "cuda" else float(number.item())
        for number in numbers
    ]


def _fetched(scalars: list[Tensor]) -> list[float]:
    device = scalars[0].device
    stacked = torch.stack([scalar.reshape(()).to(device, torch.float64, non_blocking=True) for scalar in scalars])
    host = torch.empty(stacked.shape, dtype=stacked.dtype, pin_memory=True)
    host.copy_(stacked, non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's is untyped
    copied.record(torch.cuda.current_stream(device))
    copied.synchronize()
    return [number.item() for number in host]  # tolist() would look into a fake, which has no content
