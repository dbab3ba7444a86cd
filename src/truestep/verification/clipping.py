"""The mistakes of a clip, each by the coefficients that it leaves: not there, not declared, or not in its place. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from truestep.pages.words import significant
from truestep.verification.coefficients import Vector
from truestep.verification.cut import SAME, VARIED, Cut
from truestep.verification.setting import Account, Setting


def clipping(s: Setting) -> Iterator[Account]:
    """Every one that the norms allow."""
    norm = s.norm
    if s.limit is not None:
        yield Account(
            kind="clip-missing",
            coefficients=s.shares,
            factor=norm / s.limit,
            sentence=f"a clip to the norm {significant(s.limit)} was declared, and the gradient arrives as it was, of norm"
            f" {significant(norm)}",
            fix="clip between unscaling and the step, and only what the optimizer holds",
        )
        for words, coefficients in _inside(s, s.limit):
            yield Account(
                kind="clip-inside-window",
                coefficients=coefficients,
                factor=None,
                sentence=f"the clip to {significant(s.limit)} acted {words}, and not once on the whole window",
                fix="clip once, after the last backward of the window",
                rule="clip-inside-window",
            )


def _inside(s: Setting, limit: float) -> Iterator[tuple[str, Vector]]:
    """The coefficients where every partial sum was clipped, and where every microbatch's own gradient was."""
    norm = s.whole.norm

    def cut(c: Vector) -> Vector:
        return np.asarray(c * min(1.0, limit / max(norm(c), np.finfo(np.float64).tiny)))

    units = np.eye(s.count)
    sums = np.zeros(s.count)
    for share, unit in zip(s.shares, units, strict=True):
        sums = cut(sums + share * unit)
    yield "after every microbatch, on partial sums", sums
    yield "on every microbatch's gradient by itself", np.asarray(s.shares * np.array([cut(unit).sum() for unit in units]))
    yield (
        "on every microbatch's share by itself",
        np.array([cut(share * unit).sum() for share, unit in zip(s.shares, units, strict=True)]),
    )


def cut(s: Setting, *, sure: bool) -> Iterator[Account]:
    """The direction of the right gradient, cut to a limit that nobody declared: one that is sure, or one that is only round."""
    found, norm, arrived = s.cut, s.norm, s.whole.arrived
    if found is None or found.sure != sure or norm <= 0 or math.isclose(arrived, s.whole.norm(s.expected), rel_tol=SAME):
        return
    kept = s.shares * (arrived / norm)
    mark = f"the norm {significant(arrived)}{_in(found)}"
    declared = "no clip was declared" if s.limit is None else f"the limit that was declared is {significant(s.limit)}"
    if found.scaled:
        assert s.scaled is not None
        yield Account(
            kind="clip-before-unscale",
            coefficients=kept,
            factor=arrived / norm,
            sentence=f"the gradient arrives with {mark}, which is {significant(found.limit)} over the loss scale,"
            f" {significant(s.scaled)}: it was clipped while it still carried the loss scale ({declared})",
            fix="unscale first, then clip: scaler.unscale_(optimizer) before clip_grad_norm_",
            rule="clip-before-unscale",
        )
    elif found.excess > 1 + VARIED:
        yield from _too_long(s, kept, found, mark=mark, said=declared)
    else:
        yield Account(
            kind="clip-undeclared",
            coefficients=kept,
            factor=arrived / norm,
            sentence=f"the gradient arrives in its direction, shortened from {significant(norm)} to {mark}: it was clipped, and"
            f" {declared}. What was done to its length before cannot be seen",
            fix=f"declare it, so that the rest can be told: clip=ClipNorm({significant(found.limit)})",
        )


def _in(found: Cut) -> str:
    return f" in {found.attempts} attempts whose gradients differ in length" if found.sure else ""


def _too_long(s: Setting, kept: Vector, found: Cut, *, mark: str, said: str) -> Iterator[Account]:
    """A clip shortens, and what arrives is longer than the full batch's: it was too long before."""
    causes = [] if s.count == 1 or found.excess > s.count * (1 + VARIED) else ["not-divided"]
    if not causes and s.total > 1 and found.excess <= s.total * (1 + VARIED):
        causes.append("not-divided")
    causes += ["still-scaled"] if s.scaled is not None and found.excess <= s.scaled * s.count else []
    causes += ["normalised"] if math.isclose(found.limit, 1.0, rel_tol=SAME) else []
    told = causes[0] if causes and causes[0] == "still-scaled" else "too-long-before-clip"
    for kind in dict.fromkeys([told, *causes]):
        yield Account(
            kind=kind,
            coefficients=kept,
            factor=s.whole.arrived / s.norm,
            sentence=f"what arrives was cut to {mark}, and is up to {significant(found.excess)} times as long as the full batch's"
            f" gradient ({said}): before the clip it was {_WHY[told]}",
            fix="divide by the window's total weight and unscale before the clip"
            f"; then declare it: clip=ClipNorm({significant(found.limit)})",
            rule="optimizer-step-direct" if told == "still-scaled" else "accumulation-weight",
        )


_WHY = {
    "still-scaled": "too long, by more than a missing division by the weight makes it: it was still scaled when it was clipped",
    "too-long-before-clip": "too long, as where it was not divided by the weight, was still scaled or was brought to one length",
}


def cut_short(s: Setting) -> Iterator[Account]:
    """What the declared clip hides: a gradient that was too long before it, from whatever mistake."""
    norm, arrived = s.norm, s.whole.arrived
    if s.limit is None or not 0 < norm < s.limit or not math.isclose(arrived, s.limit, rel_tol=SAME):
        return
    times = max([s.limit / norm, *(each.arrived / each.wanted for each in s.lengths if each.wanted > 0)])
    scaled = s.scaled is not None and max(s.count, s.total) * (1 + VARIED) < times <= s.scaled * s.count
    yield Account(
        kind="still-scaled" if scaled else "too-long-before-clip",
        coefficients=s.shares * (s.limit / norm),
        factor=s.limit / norm,
        sentence=f"what arrives was cut to the clip's limit, {significant(s.limit)}, which the full batch's gradient"
        f" (norm {significant(norm)}) does not reach: before the clip it was more than {significant(times)} times too large"
        + (", more than a missing division makes it: it was still scaled when it was clipped" if scaled else _EITHER),
        fix="divide by the window's total weight and unscale before the clip",
        rule="optimizer-step-direct" if scaled else "accumulation-weight",
    )


_EITHER = ", as where it was not divided or still scaled"
