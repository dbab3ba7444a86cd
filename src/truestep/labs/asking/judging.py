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
    left: tuple[int, ...] = ()
    """Attempts, counted from 0, whose first backward was added to what the attempt before had left in .grad."""


def judged(milestone: Milestone, yours: Loop, engine: Loop, verification: Verification | None) -> Report:
    """The report; `verification` is None where nothing finite is left to be verified."""
    first = _spreads(yours)
    off = [*_off(yours, engine), *_gradients(verification, beside=bool(yours.left))]
    if first is not None:
        off.insert(0, f"{first.what}{_follows(yours, engine)}")
    if not off and not _together(yours.weights, engine.weights):
        off.append(
            "each window alone has the right gradient, but all together end elsewhere: something of one is left in the next"
        )
    return Report(
        milestone=milestone.name,
        passed=not off,
        off=tuple(off),
        expected=engine.attempts,
        measured=yours.attempts,
        verified=_verdict(verification, None if first is None else first.verdict, off),
    )


@dataclass(frozen=True, kw_only=True)
class _Mistake:
    """One from which more follows in the attempts behind it."""

    what: str
    verdict: str
    """On the gradient at the optimizer, which verify sees in finite windows alone and within what formats explain."""


def _spreads(yours: Loop) -> _Mistake | None:
    """The mistake that explains skips and scales of later attempts; the first, where there are two."""
    if yours.left:
        first = yours.left[0] + 1
        return _Mistake(
            what=f"gradients were not zeroed: the first backward of attempt {first} was added to what attempt {first - 1} had"
            " left in .grad; optimizer.zero_grad() belongs inside the loop, once for each update",
            verdict=f"FAILED: from attempt {first} on the gradient at the optimizer contains that of the attempt before"
            f" ({len(yours.left)} of {len(yours.attempts)} attempts)",
        )
    broken = yours.attempts[BROKEN : BROKEN + 1]
    if any(each.moved for each in broken) or (yours.attempts and not all(map(math.isfinite, yours.weights))):
        return _Mistake(
            what=f"attempt {BROKEN + 1} has an input of infinity and moved the weights: scaler.step(optimizer) looks at the "
            "gradients and leaves the step out, optimizer.step() does not",
            verdict=f"FAILED: in attempt {BROKEN + 1} the optimizer was given a gradient that is not finite, and stepped",
        )
    return None


def _follows(yours: Loop, engine: Loop) -> str:
    """What later attempts show of a mistake that spreads."""
    still = [str(place) for place in _still(yours)]
    wrong = _wrong_scales(yours.attempts, engine.attempts)
    follow = [f"nothing moved in attempt {', '.join(still)}"] if still else []
    if wrong:
        place = wrong[0]
        follow.append(
            f"the loss scale is {yours.attempts[place].scale:g} after attempt {place + 1}, not {engine.attempts[place].scale:g}"
        )
    return f". From this follows: {'; '.join(follow)}" if follow else ""


def _off(yours: Loop, engine: Loop) -> Iterator[str]:
    """Sentences on format, skips and scale, of which none follows from a mistake that spreads."""
    if not yours.attempts:
        yield "nothing was taken from the windows by a for loop: go through them as `for ... in ...`"
        return
    if yours.formats - {"float16"}:
        formats = ", ".join(sorted(yours.formats))
        yield f"the model's outputs were {formats}: the forward belongs into torch.autocast('cpu', dtype=torch.float16)"
    if len(yours.attempts) != len(engine.attempts):
        yield f"the loop took {len(yours.attempts)} of {len(engine.attempts)}"
    if _spreads(yours) is not None:
        return
    still = _still(yours)
    if still:
        yield (
            f"nothing moved in attempt {', '.join(map(str, still))}, whose input is finite: scaler.step(optimizer) belongs once "
            "into each turn of the loop, and leaves out what is not finite"
        )
    yield from _scales(yours.attempts, engine.attempts)


def _still(yours: Loop) -> list[int]:
    """Attempts, from 1, of finite input that moved nothing."""
    return [place + 1 for place, each in enumerate(yours.attempts) if not each.moved and place != BROKEN]


def _wrong_scales(yours: Sequence[Attempt], engine: Sequence[Attempt]) -> list[int]:
    return [place for place, pair in enumerate(zip(yours, engine, strict=False)) if pair[0].scale != pair[1].scale]


def _scales(yours: Sequence[Attempt], engine: Sequence[Attempt]) -> Iterator[str]:
    wrong = _wrong_scales(yours, engine)
    if wrong and all(each.scale == SCALE for each in yours):
        yield "the loss scale never moved: scaler.update() belongs behind each scaler.step(optimizer)"
    elif wrong:
        place = wrong[0]
        was = f"the loss scale is {yours[place].scale:g} after attempt {place + 1}, not {engine[place].scale:g}"
        yield f"{was}: scaler.update() belongs once behind each update, and an update is a whole window"


def _verdict(verification: Verification | None, spreads: str | None, off: Sequence[str]) -> str | None:
    """On the gradient at the optimizer; that it passed is no verdict on a loop in which something else is off."""
    if spreads is not None:
        return spreads
    if verification is None:
        return None
    alone = bool(off) and verification.passed
    return (
        f"the gradient of the windows whose input is finite, by itself: {verification.headline}"
        if alone
        else verification.headline
    )


def _gradients(verification: Verification | None, *, beside: bool) -> Iterator[str]:
    """What verify says of the gradient at the optimizer where it is not the float32 full batch's, `beside` what is left in it."""
    if verification is None or verification.passed:
        return
    if verification.reading is not None:
        if beside and verification.reading.kind == "leftover":
            return
        yield f"{verification.reading.sentence} ({verification.reading.kind}; {verification.reading.fix})"
    elif not beside:
        yield f"the gradient at the optimizer is not the float32 full batch's: {verification.headline}"


def _together(yours: Sequence[float], engine: Sequence[float]) -> bool:
    """Whether the weights, which began at 0, ended in the same place as far as float16 tells."""
    return math.dist(yours, engine) <= APART * math.hypot(*engine)
