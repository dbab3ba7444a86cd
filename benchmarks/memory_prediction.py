"""Prints predicted beside measured memory for models, policies, splits and optimizers: python benchmarks/memory_prediction.py.

`--quick` takes three policies, two optimizers and two tasks; `--only deep:bf16 bytes-lm:bf16` what is named of them.
Peaks are the higher of a first and a later attempt; measured is
torch's allocator, workspaces inside of kernels included. `exact` says whether weights, gradients and optimizer state agree to
the byte.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.footprint.models import MODELS, OPTIMIZERS, update_of, window_of
from truestep.footprint import Footprint, memory

POLICIES = ("fp32", "bf16", "bf16-master", "bf16-pure")
EXACT = ("weights", "gradients", "masters", "moments", "accumulators")


QUICK = {"policies": ("fp32", "bf16", "bf16-master"), "optimizers": ("sgd", "adamw"), "tasks": ("bytes-lm", "digits-conv")}
ALL = {"policies": POLICIES, "optimizers": tuple(OPTIMIZERS), "tasks": ("bytes-lm", "digits-conv", "digits")}


def show(name: str, found: Footprint, optimizer: str) -> float:
    """One row; the relative error."""
    assert found.predicted is not None, found.not_predicted
    assert found.measured is not None
    exact = all(getattr(found.predicted.each, kind) == getattr(found.measured.each, kind) for kind in EXACT)
    error = found.predicted.peak_bytes / found.measured.peak_bytes - 1
    print(
        f"{name:14} {found.policy:12} {found.microbatches:3} {optimizer:21} {found.predicted.peak_bytes:12,} "
        f"{found.measured.peak_bytes:12,} {error:+8.2%}  {'yes' if exact else 'NO'}",
        flush=True,
    )
    return abs(error)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", metavar="WHAT:POLICY")
    given = parser.parse_args()
    torch.set_num_threads(1)
    asked = QUICK if given.quick else ALL
    wanted = [
        (name, policy)
        for name in (*MODELS, *asked["tasks"])
        for policy in asked["policies"]
        if given.only is None or f"{name}:{policy}" in given.only
    ]
    errors = defaultdict(list)
    print(f"{'what':14} {'policy':12} {'mb':>3} {'optimizer':21} {'predicted':>12} {'measured':>12} {'error':>8}  exact")
    for name, policy in wanted:
        for microbatches in (1, 4):
            if name in MODELS:
                for optimizer in asked["optimizers"]:
                    found = memory(update_of(name, policy, optimizer), window_of(name, microbatches))
                    errors[name, policy].append(show(name, found, optimizer))
            else:
                found = memory(name, policy=policy, microbatches=microbatches, device="cpu")
                errors[name, policy].append(show(name, found, found.optimizer))
    for (name, policy), own in errors.items():
        print(f"worst of {name:14} {policy:12} {max(own):.2%} in {len(own)} rows")
    rows = [error for own in errors.values() for error in own]
    print(f"{len(rows)} rows; greatest error {max(rows):.2%}, mean {sum(rows) / len(rows):.2%}")
