"""Under which profile the tests run: quick, or full where TRUESTEP_FULL=1 says so; and the seed of what they draw at random."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterable
from typing import Any

FULL = os.environ.get("TRUESTEP_FULL", "0") not in ("", "0")
"""Whether the long proofs run in full."""


def seed() -> int:
    """TRUESTEP_SEED; where nobody has set it 0, so that a change is judged by the same draws twice, and a new one in full.

    Kept in the environment, so that every process of a run has the same.
    """
    return int(os.environ.setdefault("TRUESTEP_SEED", str(random.SystemRandom().randrange(10**6) if FULL else 0)))


def product(*values: Iterable[Any], every: int) -> list[tuple[Any, ...]]:
    """All combinations in the full profile; in the quick one each `every`-th.

    Where `every` shares no factor with the numbers of values, each value still comes by.
    """
    combinations = list(itertools.product(*values))
    return combinations if FULL else combinations[::every]
