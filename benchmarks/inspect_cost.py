"""Cost of one more inspected attempt, as a multiple of a plain one; and what an inspection costs once, in seconds.

usage: inspect_cost.py [ROUNDS]      (one thread; every round makes plain attempts, then inspections of few and of many)
Both inspections make the same attempts, of which 4 or 12 are inspected: their difference over 8 is what an inspected attempt
costs more than a plain one, and `one more` is that plus 1, plain ones being 1. `once` is what is left of the inspection of 4
without its attempts: making ready and undoing, operators, MX and fp8, the float32 run beside, the result; `record` is made of it
for JSON and pages. In seconds of the processor, medians of the rounds. `again`, plain over plain, is the noise.
"""

import statistics
import sys
import time
from itertools import islice

import torch
from torch import nn

from truestep.engine.update import Update
from truestep.inspection.inspect import inspect
from truestep.run.beginning import beginning_of
from truestep.tasks.loading import load

torch.set_num_threads(1)
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
FEW, MANY, AFTER = 4, 12, 12
SECONDS = 6
"""Of rounds at least, for those of small models differ much."""
PLAIN = 6
"""Plain attempts that are timed together."""


def task(name, policy):
    """A built-in task's update and windows."""
    cpu = torch.device("cpu")
    begun = beginning_of(load(name), policy, microbatches=None, seed=0, device=cpu, scale=None, allow_underflow=True)
    return begun.update, list(islice(begun.windows(), AFTER + 1))


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


def round_of(update, windows):
    """One round's seconds of a plain attempt, noise floor, cost of one more inspected, seconds once, seconds of the record."""

    def plain():
        for window in windows[:PLAIN]:
            update(window)

    def inspected(attempts):
        made.append(inspect(update, windows, attempts=attempts, after=AFTER))

    made = []
    first, few, again, many, last = (
        seconds(work) for work in (plain, lambda: inspected(FEW), plain, lambda: inspected(MANY), plain)
    )
    one = (first + again + last) / (3 * PLAIN)
    more = (many - few) / (MANY - FEW) / one + 1
    once = few - one * (AFTER + 1 - FEW + FEW * more)
    return one, last / first, more, once, seconds(made[0].record)


CONTENDERS = {
    "bytes-lm, bf16": lambda: task("bytes-lm", "bf16"),
    "mlp 1024, batch 256, bf16": lambda: mlp("bf16", 1024, 256),
    "mlp 1024, batch 256, fp32": lambda: mlp("fp32", 1024, 256),
    "digits-conv, bf16": lambda: task("digits-conv", "bf16"),
    "digits, fp16": lambda: task("digits", "fp16"),
    "mlp 64, batch 32, fp16": lambda: mlp("fp16", 64, 32),
}

if __name__ == "__main__":
    print(f"{'':28} {'plain ms':>9} {'again':>6} {'one more':>9} {'once s':>7} {'record s':>9}")
    for name, make in CONTENDERS.items():
        update, windows = make()
        round_of(update, windows)
        rounds, start = [], time.process_time()
        while len(rounds) < ROUNDS or time.process_time() - start < SECONDS:
            rounds.append(round_of(update, windows))
        base, again, more, once, record = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:28} {base * 1e3:9.1f} {again:6.2f} {more:9.2f} {once:7.2f} {record:9.2f}", flush=True)
