"""Cost of an inspected attempt, as a multiple of a plain one, side by side in one run.

usage: inspect_cost.py [ROUNDS]      (one thread; every round makes plain attempts, then a whole inspection)
An inspection makes 4 inspected attempts and 5 plain ones; (all of it - 5 plain) / 4 is what one inspected costs. All of it is
counted: undoing, operators, MX, the result; `recorded` has the record for JSON and pages too. In seconds of the processor.
`again` is the noise floor.
"""

import statistics
import sys
import time

import torch
from torch import nn

from truestep.engine.update import Update
from truestep.inspection.inspect import _built, inspect
from truestep.tasks.loading import load

torch.set_num_threads(1)
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
INSPECTED, AFTER = 4, 8


def task(name, policy):
    """A built-in task's update and windows."""
    update, windows = _built(load(name), policy, microbatches=None, seed=0, device=torch.device("cpu"), scale=None)
    return update, [next(windows) for _ in range(AFTER + 1)]


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
    return update, [[(torch.randn(batch, width), torch.randint(10, (batch,))) for _ in range(2)] for _ in range(AFTER + 1)]


def seconds(work):
    """Of the processor."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ratios(update, windows):
    """Seconds of a plain attempt, and medians of the ratios."""

    def plain():
        for window in windows:
            update(window)

    def inspected():
        made.append(inspect(update, windows, attempts=INSPECTED, after=AFTER))

    made, found = [], []
    for work in (plain, inspected):
        work()
    for _ in range(ROUNDS):
        base, again, ours = (seconds(work) for work in (plain, plain, inspected))
        recorded = ours + seconds(made[-1].record)
        one = (base + again) / (2 * len(windows))
        found.append((one, again / base, *((each / one - (AFTER + 1 - INSPECTED)) / INSPECTED for each in (ours, recorded))))
    return [statistics.median(column) for column in zip(*found, strict=True)]


CONTENDERS = {
    "bytes-lm, bf16": lambda: task("bytes-lm", "bf16"),
    "mlp 1024, batch 256, bf16": lambda: mlp("bf16", 1024, 256),
    "mlp 1024, batch 256, fp32": lambda: mlp("fp32", 1024, 256),
    "digits-conv, bf16": lambda: task("digits-conv", "bf16"),
    "digits, fp16": lambda: task("digits", "fp16"),
    "mlp 64, batch 32, fp16": lambda: mlp("fp16", 64, 32),
}

print(f"{'':28} {'plain ms':>9} {'again':>6} {'inspected':>9} {'recorded':>9}")
for name, make in CONTENDERS.items():
    base, again, ours, recorded = ratios(*make())
    print(f"{name:28} {base * 1e3:9.1f} {again:6.2f} {ours:9.2f} {recorded:9.2f}")
