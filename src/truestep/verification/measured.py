"""Mistakes that are read off the coefficients themselves, where none of those that can be thought of beforehand fits. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from truestep.pages.words import listing, significant
from truestep.verification.coefficients import Vector
from truestep.verification.setting import Account, Setting, numbers

CERTAIN = 4.0
"""How many times the noise a coefficient must lie off before it is spoken of without a cause."""
SURE = 0.1
"""Uncertainty of a coefficient, relative to it, up to which it is called a power of two."""
LARGE = 64.0
"""A power of two from here on looks like a loss scale."""


def measured(s: Setting) -> Iterator[Account]:
    """What the coefficients show: one factor, a power of two for each microbatch, or a weight for each."""
    expected = s.gradients.filled(s.expected)
    square = float(expected @ s.gradients.gram @ expected)
    if square <= 0:
        return
    ratio = float(expected @ s.gradients.against.sum(axis=0)) / square
    whole = np.asarray(s.expected * ratio)
    if ratio != 0 and s.gradients.fits(whole):
        if abs(ratio - 1) * math.sqrt(square) > CERTAIN * s.gradients.noise:
            yield from _factor(s, ratio)
    elif s.count > 1 and s.gradients.nearest.told_apart:
        yield from _one_by_one(s)


def _factor(s: Setting, ratio: float) -> Iterator[Account]:
    expected, exponent = s.expected, _exponent(ratio)
    words = f"the gradient is {significant(ratio, 4)} times the full batch's, in its direction"
    if s.scaled is None and exponent is not None and not 1 / LARGE < ratio < LARGE:
        yield Account(
            kind="still-scaled" if ratio > 1 else "unscale-twice",
            coefficients=expected * 2.0**exponent,
            factor=2.0**exponent,
            sentence=f"{words}: 2^{exponent}, which looks like a loss scale, divided by {'never' if ratio > 1 else 'twice'}",
            fix="unscale once, after the last backward of the window",
            rule="optimizer-step-direct" if ratio > 1 else "unscale-twice",
        )
    if s.scaled is not None and exponent in (-1, 1):
        yield Account(
            kind="scale-moved",
            coefficients=expected * 2.0**exponent,
            factor=2.0**exponent,
            sentence=f"{words}: the loss scale moved between backward and unscaling",
            fix="scaler.update() once an attempt, after the last step",
            rule="multi-optimizer-one-scaler",
        )
    count = round(s.count / ratio) if ratio > 0 else 0
    if s.equal and 1 <= count <= 4 * s.count and s.gradients.fits(expected * (s.count / count)):
        yield Account(
            kind="other-count",
            coefficients=expected * (s.count / count),
            factor=s.count / count,
            sentence=f"the sum was divided by {count}, and the window holds {s.count} microbatches: a short window, or a count"
            " that is not its own",
            fix="divide by the number of microbatches that this window holds",
            rule="partial-window",
        )
    yield Account(
        kind="factor",
        coefficients=expected * ratio,
        factor=ratio,
        sentence=f"{words}, as where it was divided by {significant(s.total / ratio, 4)} and not by the window's weight,"
        f" {significant(s.total, 4)}",
        fix="divide by the total weight of the window, once, and change the gradient by nothing else",
        rule="unexplained-gradient",
    )


def _one_by_one(s: Setting) -> Iterator[Account]:
    found = s.gradients.nearest
    coefficients, spread = np.array(found.coefficients), np.array(found.uncertainty[: s.count])
    ratios = coefficients / s.shares
    sure = (spread <= SURE * np.abs(coefficients)).all()
    exponents = [_exponent(float(ratio)) for ratio in ratios]
    if sure and None not in exponents and len(set(exponents)) > 1:
        yield Account(
            kind="scale-moved",
            coefficients=s.shares * np.exp2(np.array(exponents, dtype=np.float64)),
            factor=None,
            sentence=f"the microbatches count {numbers(ratios)} times as much as they should, powers of two: the loss scale"
            " changed inside the window, and one division served them all",
            fix="scaler.update() once an attempt, after the step",
            rule="scale-handled-inside-window",
        )
    yield from _not_reduced(s, ratios)
    if (np.abs(coefficients - s.expected) > CERTAIN * spread).any():
        yield Account(
            kind="uneven-weights",
            coefficients=coefficients,
            factor=None,
            sentence=f"the microbatches count {numbers(coefficients)}, and by weight they should {numbers(s.expected)}",
            fix="one backward a microbatch, with the weight w_k / W, and one division by the scale for the whole window",
            rule="unequal-weights",
        )


def _not_reduced(s: Setting, ratios: Vector) -> Iterator[Account]:
    """Some microbatches are not there, and as many others count for them: what a shard has of its own, and was not averaged."""
    whole = [round(float(ratio)) for ratio in ratios]
    most = max(whole)
    missing = [k for k, each in enumerate(whole) if each == 0]
    if most < 2 or not missing or not set(whole) <= {0, 1, most} or sum(whole) != s.count:
        return
    instead = [str(k + 1) for k, each in enumerate(whole) if each == most]
    yield Account(
        kind="not-reduced",
        coefficients=s.shares * np.array(whole, dtype=np.float64),
        factor=None,
        sentence=f"the microbatches {listing([str(k + 1) for k in missing])} are not there, and {listing(instead)} count {most}"
        " times instead: as where shards take their mean before the last microbatch, and each steps with its own rest",
        fix="synchronise on the last microbatch of the window, and on no other: no_sync() around all but the last",
        rule="ddp-no-sync",
    )


def _exponent(ratio: float) -> int | None:
    """n where `ratio` is about 2^n; None where it is no power of two."""
    if not ratio > 0:
        return None
    exponent = round(math.log2(ratio))
    return exponent if math.isclose(ratio, 2.0**exponent, rel_tol=2 * SURE) else None
