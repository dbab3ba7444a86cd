"""The mistakes of a clip, each by the coefficients that it leaves: not there, not declared, or not in its place. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from truestep.pages.words import significant
from truestep.verification.coefficients import Vector
from truestep.verification.setting import Account, Setting


def clipping(s: Setting) -> Iterator[Account]:
    """Every one that the norms allow."""
    norm, arrived = s.norm, s.whole.arrived
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
    elif norm > 0 and arrived > 0:
        yield from _shortened(s, norm, arrived)


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


def _shortened(s: Setting, norm: float, arrived: float) -> Iterator[Account]:
    """The direction of the right gradient, of a norm that somebody has chosen."""
    kept = s.shares * (arrived / norm)
    mantissa = float(f"{arrived:.3e}".partition("e")[0])
    if math.isclose(arrived, 1.0, rel_tol=1e-3) and norm < arrived:
        yield Account(
            kind="normalised",
            coefficients=kept,
            factor=arrived / norm,
            sentence=f"only the direction is left: the gradient arrives with the norm 1, and is {significant(norm)} long",
            fix="if gradients are to be normalised, that is no full-batch update; else take it out",
        )
    elif norm > arrived and any(math.isclose(mantissa, chosen, rel_tol=1e-3) for chosen in (1.0, 2.0, 2.5, 5.0, 10.0)):
        yield Account(
            kind="clip-undeclared",
            coefficients=kept,
            factor=arrived / norm,
            sentence=f"the gradient arrives in its direction, shortened from {significant(norm)} to the norm"
            f" {significant(arrived)}: it was clipped, and no clip was declared",
            fix=f"declare it: clip=ClipNorm({significant(arrived)})",
        )


def cut_short(s: Setting) -> Iterator[Account]:
    """What the declared clip hides: a gradient that was too long before it, from whatever mistake."""
    norm, arrived = s.norm, s.whole.arrived
    if s.limit is not None and 0 < norm < s.limit and math.isclose(arrived, s.limit, rel_tol=1e-3):
        yield Account(
            kind="too-long-before-clip",
            coefficients=s.shares * (s.limit / norm),
            factor=s.limit / norm,
            sentence=f"what arrives was cut to the clip's limit, {significant(s.limit)}, which the full batch's gradient"
            f" (norm {significant(norm)}) does not reach: before the clip it was more than"
            f" {significant(s.limit / norm)} times too large, as where it was not divided or still scaled",
            fix="divide by the window's total weight and unscale before the clip",
            rule="accumulation-weight",
        )
