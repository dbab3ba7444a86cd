"""The attempts of one run, read from its ledger into columns: what the trend figures draw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]

FIELDS = ("train/loss", "grad_norm", "amp/loss_scale")
"""The fields of a ledger's attempt that become columns, besides counts.examples_seen."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Attempts:
    """One run's attempts in order, one entry of each column per attempt; NaN where the ledger holds no number.

    An attempt that a resume rolled back is not among them: it is counted in `rolled_back`.
    """

    candidate: str
    seed: int
    examples: Column
    """Examples given to the model up to and with this attempt."""
    loss: Column
    grad_norm: Column
    scale: Column
    skips: Mapping[int, str]
    """Index of each skipped attempt, with its reason."""
    rolled_back: int

    def __len__(self) -> int:
        """How many attempts."""
        return len(self.examples)


def read_attempts(lines: Iterable[Mapping[str, Any]], *, candidate: str, seed: int) -> Attempts:
    """The columns of a ledger's lines; headers and kinds that this page does not know are passed over.

    >>> line = {"kind": "attempt", "attempt": 1, "train/loss": "inf", "grad_norm": None, "amp/loss_scale": 8.0,
    ...         "skip": {"reason": "forward overflow"}, "counts": {"examples_seen": 32}}
    >>> read = read_attempts([{"kind": "header"}, line], candidate="fp16", seed=0)
    >>> read.examples, read.loss, read.skips
    (array([32.]), array([inf]), {0: 'forward overflow'})
    """
    rows: list[tuple[int, str | None, list[float]]] = []
    rolled_back = 0
    for line in lines:
        if line.get("kind") == "resume":
            kept = [row for row in rows if row[0] <= line["attempts"]]
            rolled_back += len(rows) - len(kept)
            rows = kept
        elif line.get("kind") == "attempt":
            numbers = [line["counts"]["examples_seen"], *(line[field] for field in FIELDS)]
            reason = None if line["skip"] is None else str(line["skip"]["reason"])
            rows.append((line["attempt"], reason, [_number(number) for number in numbers]))
    columns = np.array([numbers for _, _, numbers in rows], dtype=np.float64).reshape(-1, 1 + len(FIELDS)).T
    return Attempts(
        candidate=candidate,
        seed=seed,
        examples=columns[0],
        loss=columns[1],
        grad_norm=columns[2],
        scale=columns[3],
        skips={index: reason for index, (_, reason, _) in enumerate(rows) if reason is not None},
        rolled_back=rolled_back,
    )


def _number(field: float | str | None) -> float:
    """A ledger's number: absent is NaN, and "nan", "inf", "-inf" are what they say."""
    return float("nan") if field is None else float(field)
