"""Measures the bytes that each policy takes for a parameter, by the process's resident memory: python benchmarks/weight_bytes.py.

Each row is a process of its own, which trains 8 linear layers by AdamW on one example: activations weigh nothing. `held` is
what stays between two attempts once gradients are cleared, `gradients` what the window's gradients add to it before the
finite check, `peak` the highest point of an attempt above the empty process: transient copies are what it has beyond both.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROWS = [("fp32", 1), ("fp32", 2), ("bf16", 1), ("bf16-master", 1), ("bf16-master", 2), ("bf16-pure", 1), ("bf16-pure", 2)]
WIDTH, LAYERS = 1024, 8


def resident(key: str) -> int:
    """Bytes of this process's memory: VmRSS now, or VmHWM at its highest since `forget_peak`."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) * 1024


def forget_peak() -> None:
    """Let VmHWM begin again from now."""
    Path("/proc/self/clear_refs").write_text("5")


def measured(policy: str, microbatches: int) -> dict[str, object]:
    """Bytes a parameter in this process, which has trained nothing yet."""
    import torch  # noqa: PLC0415 # the parent does without
    from torch import nn  # noqa: PLC0415

    import truestep  # noqa: PLC0415

    def build(width: int) -> truestep.Update[torch.Tensor]:
        model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(LAYERS)))
        return truestep.Update(model, torch.optim.AdamW, loss=lambda model, x: model(x).square().mean(), policy=policy)

    build(64)([torch.ones(1, 64)] * microbatches)  # libraries have loaded and laid out what they need
    empty = resident("VmRSS")
    update, row = build(WIDTH), torch.ones(1, WIDTH)
    for _ in range(2):  # the first attempt makes the moments, and keeps a copy for its first step
        update([row] * microbatches)
        for p in update.model.parameters():
            p.grad = None
    held = resident("VmRSS")
    forget_peak()
    with update.attempt(total=microbatches) as attempt:
        for _ in range(microbatches):
            with attempt.autocast():
                loss = update.model(row).square().mean()
            attempt.backward(loss, 1)
        del loss
        with_gradients = resident("VmRSS")
    parameters = LAYERS * WIDTH**2
    return {
        "policy": policy,
        "microbatches": microbatches,
        "held": (held - empty) / parameters,
        "gradients": (with_gradients - held) / parameters,
        "peak": (resident("VmHWM") - empty) / parameters,
    }


def row_of(policy: str, microbatches: int) -> dict[str, object]:
    """The same, by a process of its own that gives freed memory back at once."""
    surroundings = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, policy, str(microbatches)]
    return json.loads(subprocess.run(command, env=surroundings, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(measured(sys.argv[1], int(sys.argv[2]))))
    else:
        print(f"{'policy':12} {'microbatches':>12} {'held':>7} {'gradients':>9} {'peak':>7}   bytes a parameter")
        for policy, microbatches in ROWS:
            row = row_of(policy, microbatches)
            print(f"{policy:12} {microbatches:12} {row['held']:7.2f} {row['gradients']:9.2f} {row['peak']:7.2f}")
