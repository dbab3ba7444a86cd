"""The bytes of each policy for a parameter, as a table."""

from __future__ import annotations

from benchmarks import weight_bytes
from benchmarks.table import Table

HOW = """
8.4 million parameters, AdamW, one process a row, from the process's resident memory. `held` is what stays between two
attempts, `gradients` what a window adds to it, `peak` the highest point of an attempt. With bfloat16, 0.7 of `held` is
torch's workspace for its products; 1.5 of `peak` are the temporaries of AdamW for one tensor of this model.
"""


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    found = [weight_bytes.row_of(policy, microbatches) for policy, microbatches in weight_bytes.ROWS[: 1 if quick else None]]
    rows = tuple(
        (str(row["policy"]), str(row["microbatches"]), *(f"{row[kind]:.2f}" for kind in ("held", "gradients", "peak")))
        for row in found
    )
    return [Table(title="Bytes a parameter", how=HOW, columns=("policy", "microbatches", "held", "gradients", "peak"), rows=rows)]
