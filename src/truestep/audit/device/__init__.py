"""Lets a script that was written for CUDA run on the CPU: every name of a CUDA device means the CPU from here on.

What a script is told, and why:

* It is told that there is a CUDA device, so it goes the way it goes on one. Torch's own code is told the truth.
* `torch.device("cuda")` stays what it is; wherever it is used, the CPU is. So `device.type == "cuda"` is true of a device that
  the script named. It is false of a tensor's own: a tensor on the CPU says `cpu`, and its `is_cuda` says no. Both are told.
* A move between the CPU and CUDA copies, as it does there: a snapshot made with `.cpu()` does not follow the weights.
* CUDA's random generator is one that nothing draws from; all randomness comes from the CPU's.
* Autocast casts to float16 where the script names no format, as CUDA's does. The CPU keeps other operations in float32 than CUDA
  (there softmax, norms, sums, powers and logarithms are among them; here they run in float16), so an overflow may lie elsewhere.
* What the CPU cannot stand in for (graphs, kernels of one's own, allocators) is refused by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from truestep.audit.device import around, casts, gpu, refused, tensors
from truestep.audit.device.names import Once
from truestep.errors import UsageError

if TYPE_CHECKING:
    from truestep.audit.trace.patches import Patches

__all__ = ["install"]


def install(to: str, patches: Patches, tell: Callable[[str, str], None]) -> None:
    """Makes every CUDA device mean the CPU until `patches.undo()`; call it after torch is imported, before the script goes on.

    Args:
        to: the device that stands in; "cpu" is the only one.
        patches: what remembers each replaced function.
        tell: called as `tell(what, why)`, once for each kind of replacement that the script came to use.

    Raises:
        UsageError: another device than the CPU was asked for. Later, in the script: it asked for what only a GPU can do.
    """
    if to != "cpu":
        raise UsageError(f"--device {to} cannot stand in for CUDA", hint="use --device cpu", device=to)
    once = Once(tell)
    for part in (tensors, casts, gpu, around, refused):
        part.install(patches, once)
