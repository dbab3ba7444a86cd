"""Cost of an inspected attempt, as a multiple of a plain one, side by side in one run.

usage: inspect_cost.py [ROUNDS]      (one thread; every round times plain attempts, then the same ones inspected)
Inspected means: the window in float32, the window under the policy, and counting; the operators, watched in the first inspected
attempt of an inspection alone, are not in the ratio. `again` is the noise floor.
"""

import statistics
import sys
import time

import torch
from torch import nn

from truestep.engine.update import Update
from truestep.inspection.inspect import _built
from truestep.inspection.inspecting import Inspecting
from truestep.tasks.loading import load

torch.set_num_threads(1)
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
TIMES = 3


def task(name, policy):
    """A built-in task's update and windows."""
    update, windows = _built(load(name), policy, microbatches=None, seed=0, device=torch.device("cpu"), scale=None)
    return update, [next(windows) for _ in range(TIMES)]


def mlp(policy, width, batch):
    """A plain perceptron's."""
    torch.manual_seed(0)
    model = nn.Sequential(*[layer for _ in range(3) for layer in (nn.Linear(width, width), nn.ReLU())], nn.Linear(width, 10))
    update = Update(
        model,
        torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True),
        loss=lambda model, both: nn.functional.cross_entropy(model(both[0]), both[1]),
        policy=policy,
    )
    return update, [[(torch.randn(batch, width), torch.randint(10, (batch,))) for _ in range(2)] for _ in range(TIMES)]


def seconds(work, windows):
    """Of `work` on all windows."""
    start = time.perf_counter()
    for index, window in enumerate(windows):
        work(window, index)
    return time.perf_counter() - start


def ratios(update, windows):
    """Seconds of a plain attempt, and medians of both ratios."""
    inspecting = Inspecting(update, 1, 0)
    plain, inspected = (
        lambda window, index: update(window),
        lambda window, index: inspecting._inspect(list(window), window, index),
    )
    for work in (plain, inspected):  # warm; the operators are watched here
        seconds(work, windows)
    found = []
    for _ in range(ROUNDS):
        base, again, ours = (seconds(work, windows) for work in (plain, plain, inspected))
        found.append((base / len(windows), again / base, ours / base))
    return [statistics.median(column) for column in zip(*found, strict=True)]


CONTENDERS = {
    "bytes-lm bf16": lambda: task("bytes-lm", "bf16"),
    "digits-conv bf16": lambda: task("digits-conv", "bf16"),
    "mlp 1024, batch 256, bf16": lambda: mlp("bf16", 1024, 256),
    "mlp 64, batch 32, fp16": lambda: mlp("fp16", 64, 32),
}

print(f"{'':28} {'plain ms':>9} {'again':>6} {'inspected':>9}")
for name, make in CONTENDERS.items():
    base, again, ours = ratios(*make())
    print(f"{name:28} {base * 1e3:9.1f} {again:6.2f} {ours:9.2f}")
