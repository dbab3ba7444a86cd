"""How an attempt on a CUDA device grows with parameters and tensors, beside the same by hand."""

from __future__ import annotations

from dataclasses import replace

from benchmarks import growths
from benchmarks.gpu import seconds_on_device
from benchmarks.table import Table

HOW = """
Milliseconds by CUDA events: medians of turns with the same by hand. An attempt whose backward gives gradients that were made
beforehand, clipped, fused AdamW. The exponent b of seconds = a n^b is fitted to all points by least squares of the
logarithms, and `at the end` is that between the last point and one at a quarter of it or less. Small sizes take what the host
takes, whatever they are.
"""


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    parameters = [10**k for k in (range(4, 6) if quick else range(4, 10))]
    tensors = [10, 100] if quick else [10, 100, 1000, 10_000]
    taken = {"rounds": 5 if quick else 31, "most_seconds": 2.0 if quick else 6.0}
    where = {"device": "cuda", "timer": seconds_on_device}
    found = [
        growths.of_sizes("parameters", [(n, 10) for n in parameters], parameters, **taken, **where),
        growths.of_sizes("tensors", [(10**6, n) for n in tensors], tensors, **taken, **where),
    ]
    return [replace(growths.table_of(found), title="Growth on the device", how=HOW)]
