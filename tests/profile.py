"""Under which profile the tests run: quick, or full where TRUESTEP_FULL=1 says so; and the seed of what they draw at random."""

from __future__ import annotations

import os
import random

FULL = os.environ.get("TRUESTEP_FULL", "0") not in ("", "0")
"""Whether the long proofs run in full."""


def seed() -> int:
    """TRUESTEP_SEED; where nobody has set it 0, so that a change is judged by the same draws twice, and a new one in full.

    Kept in the environment, so that every process of a run has the same.
    """
    return int(os.environ.setdefault("TRUESTEP_SEED", str(random.SystemRandom().randrange(10**6) if FULL else 0)))
