"""Random programs of the engine hold the laws 1 to 12, each against a reference that was written by hand in plain torch."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, note, seed, settings

from tests import profile
from tests.engine.programs.draws import POLICIES, programs
from tests.engine.programs.program import Program
from tests.engine.programs.running import Tally, hold

QUICK, IN_FULL = 80, 1000
"""Programs for each policy."""
ALWAYS = ("completed", "skipped", "exception UserError")
SOMETIMES = ("clipped", "ticks", "two splits held against the definition", "scale grew", "scale shrank", "limit of skips reached")
"""What so many programs have to come by, lest they prove nothing."""


@pytest.mark.parametrize("policy", POLICIES)
def test_random_programs_hold_laws_1_to_12(policy: str) -> None:
    tally: Tally = Counter()

    @seed(first := profile.seed() + POLICIES.index(policy))
    @settings(
        max_examples=IN_FULL if profile.FULL else QUICK,
        deadline=None,  # no test asserts wall time
        database=None,  # nor leaves a file behind: a program that failed is printed whole
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=tuple(HealthCheck),
    )
    @given(programs(policy))
    def run(program: Program) -> None:
        note(program.snippet())
        tally["programs"] += 1
        hold(program, tally)

    run()
    print(f"\n{policy}, seed {first}:", *(f"{count:7} {what}" for what, count in sorted(tally.items())), sep="\n")
    for what in (*ALWAYS, *(SOMETIMES if profile.FULL else ())):
        assert tally[what], f"no program came by: {what}"
