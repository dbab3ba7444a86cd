"""Says what is off in a learner's loop: how its attempts went beside the engine's, and what verify reads in its gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from truestep.labs.asking.milestones import BROKEN, SCALE, Attempt, Milestone, Report

if TYPE_CHECKING:
    from truestep.verification.result import Verification

APART = 2.0**-7
"""Of the way that the engine's weights went: float16 rounds by 2^-11 of a number, and sixteen such roundings fit into it."""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """What was seen of a run of the whole loop."""

    attempts: tuple[Attempt, ...]
    weights: tuple[float, ...]
    """At its end."""
    formats: frozenset[str]
    """In which the model's outputs were."""


def judged(milestone: Milestone, yours: Loop, engine: Loop, verification: Verification | None) -> Report:
    """The report; `verification` is None where nothing finite is left to be verified."""
    off = [*_off(yours, engine), *_gradients(verification)]
    if not off and not _together(yours.weights, engine.weights):
        off.append(
            "each window alone has the right gradient, but all together end elsewhere: something of one window is left in the "
            "next; are the gradients cleared inside the loop?"
        )
    return Report(
        milestone=milestone.name,
        passed=not off,
        off=tuple(off),
        expected=engine.attempts,
        measured=yours.attempts,
        verified=None if verification is None else verification.headline,
    )


def _off(yours: Loop, engine: Loop) -> Iterator[str]:
    """Sentences on format, skips and scale."""
    if not yours.attempts:
        yield "nothing was taken from the windows by a for loop: go through them as `for ... in ...`"
        return
    if yours.formats - {"float16"}:
        formats = ", ".join(sorted(yours.formats))
        yield f"the model's outputs were {formats}: the forward belongs into torch.autocast('cpu', dtype=torch.float16)"
    if len(yours.attempts) != len(engine.attempts):
        yield f"the loop took {len(yours.attempts)} of {len(engine.attempts)}"
    broken = yours.attempts[BROKEN : BROKEN + 1]
    if any(each.moved for each in broken) or not all(map(math.isfinite, yours.weights)):
        yield (
            f"attempt {BROKEN + 1} has an input of infinity and moved the weights: scaler.step(optimizer) looks at the gradients "
            "and leaves the step out, optimizer.step() does not"
        )
    still = [place + 1 for place, each in enumerate(yours.attempts) if not each.moved and place != BROKEN]
    if still:
        yield (
            f"nothing moved in attempt {', '.join(map(str, still))}, whose input is finite: is a gradient of the attempt before "
            "still there? optimizer.zero_grad() belongs inside the loop"
        )
    yield from _scales(yours.attempts, engine.attempts)


def _scales(yours: Sequence[Attempt], engine: Sequence[Attempt]) -> Iterator[str]:
    wrong = [place for place, pair in enumerate(zip(yours, engine, strict=False)) if pair[0].scale != pair[1].scale]
    if wrong and all(each.scale == SCALE for each in yours):
        yield "the loss scale never moved: scaler.update() belongs behind each scaler.step(optimizer)"
    elif wrong:
        place = wrong[0]
        was = f"the loss scale is {yours[place].scale:g} after attempt {place + 1}, not {engine[place].scale:g}"
        yield f"{was}: scaler.update() belongs once behind each update, and an update is a whole window"


def _gradients(verification: Verification | None) -> Iterator[str]:
    """What verify says of the gradient at the optimizer where it is not the float32 full batch's."""
    if verification is None or verification.passed:
        return
    if verification.reading is not None:
        yield f"{verification.reading.sentence} ({verification.reading.kind}; {verification.reading.fix})"
    else:
        yield f"the gradient at the optimizer is not the float32 full batch's: {verification.headline}"


def _together(yours: Sequence[float], engine: Sequence[float]) -> bool:
    """Whether the weights, which began at 0, ended in the same place as far as float16 tells."""
    return math.dist(yours, engine) <= APART * math.hypot(*engine)
