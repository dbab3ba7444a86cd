"""The mistakes of order and weight that can be thought of beforehand, each by the coefficients that it leaves. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from truestep.pages.words import listing, significant
from truestep.verification.clipping import clipping, cut, cut_short
from truestep.verification.coefficients import Vector
from truestep.verification.leaks import leaked
from truestep.verification.setting import Account, Setting, numbers


def accounts(setting: Setting) -> Iterator[Account]:
    """Every mistake that could be told from a right update under this setting, most telling first."""
    yield from cut_short(setting)
    yield from cut(setting, sure=True)
    yield from _division(setting)
    yield from _sums(setting)
    yield from _scaling(setting)
    yield from _microbatches(setting)
    yield from clipping(setting)
    yield from leaked(setting)
    yield from _sign(setting)


def _division(s: Setting) -> Iterator[Account]:
    n = s.count
    if n == 1:
        return
    divide = "divide each loss by the weight of the whole window before its backward: loss * (w_k / W)"
    if not s.equal:
        yield from _unequal(s)
    yield Account(
        kind="not-divided",
        coefficients=s.clipped(np.ones(n)),
        factor=float(n) if s.equal else None,
        sentence=f"the mean losses of {n} microbatches were added up and not divided: {n} times the gradient."
        f" SGD moves {n} times as far; Adam hardly shows it, but a clip and weight decay do",
        fix=f"divide each mean loss by {n} before its backward" if s.equal else divide,
        rule="accumulation-weight",
    )
    if not s.equal:
        yield Account(
            kind="not-divided",
            coefficients=s.clipped(n * s.shares),
            factor=float(n),
            sentence=f"the gradient is {n} times that of the full batch, {n} being the number of microbatches: it was not"
            f" divided. SGD moves {n} times as far; Adam hardly shows it, but a clip and weight decay do",
            fix=divide,
            rule="accumulation-weight",
        )
    yield Account(
        kind="divided-twice",
        coefficients=s.clipped(s.shares / n),
        factor=1 / n,
        sentence=f"the gradient is 1/{n} of the full batch's: it was divided by the {n} microbatches twice",
        fix="divide once, at the loss or after the window",
        rule="accumulation-weight",
    )


def _unequal(s: Setting) -> Iterator[Account]:
    n = s.count
    yield Account(
        kind="mean-of-means",
        coefficients=s.clipped(np.full(n, 1 / n)),
        factor=None,
        sentence=f"each microbatch counts 1/{n}, whatever it holds: a mean of means. By weight"
        f" ({numbers(s.weights)}) the shares are {numbers(s.shares)}, and not {numbers([1 / n] * n)}",
        fix="divide the sum of the losses by the total weight of the window, or each mean loss times w_k / W",
        rule="unequal-weights",
    )
    for change in (-1, 1):
        weights = s.weights + change
        if (weights >= 0).all() and weights.any():
            yield Account(
                kind="weights-off-by-one",
                coefficients=s.clipped(weights / weights.sum()),
                factor=None,
                sentence=f"the microbatches count by {numbers(weights)}, one {'less' if change < 0 else 'more'} each than"
                f" their weights {numbers(s.weights)}, as where labels are shifted by one",
                fix="count the labels that the loss scores, after the shift",
                rule="unequal-weights",
            )


def _sums(s: Setting) -> Iterator[Account]:
    n = s.count
    if not math.isclose(s.total, 1.0):
        yield Account(
            kind="not-divided",
            coefficients=s.clipped(s.weights.copy()),
            factor=s.total,
            sentence=f"each microbatch counts with its weight ({numbers(s.weights)}) and nothing was divided by the total,"
            f" {significant(s.total)}: the losses are sums",
            fix=f"divide by the window's total weight, here {significant(s.total)}",
            rule="accumulation-weight",
        )
        if n > 1 and not math.isclose(s.total, n):
            yield Account(
                kind="other-total",
                coefficients=s.clipped(s.weights / n),
                factor=s.total / n,
                sentence=f"sums of losses were divided by the {n} microbatches and not by their weight, {significant(s.total)}",
                fix=f"divide by the window's total weight, here {significant(s.total)}",
                rule="accumulation-weight",
            )


def _scaling(s: Setting) -> Iterator[Account]:
    if s.scaled is None:
        return
    scale = s.scaled
    for times, also in ((1.0, ""), (float(s.count), f", and not divided by the {s.count} microbatches")):
        if also and s.count == 1:
            continue
        yield Account(
            kind="still-scaled",
            coefficients=s.clipped(s.shares * scale * times),
            factor=scale * times,
            sentence=f"the gradient still carries the loss scale, {significant(scale)}{also}: it was never unscaled."
            " Adam hides it, SGD does not",
            fix="unscale once, after the last backward of the window: scaler.step(optimizer), not optimizer.step()",
            rule="optimizer-step-direct",
        )
        yield Account(
            kind="unscale-twice",
            coefficients=s.clipped(s.shares / scale * times),
            factor=times / scale,
            sentence=f"the gradient is 1/{significant(scale)} of what it should be{also}: it was divided by the loss scale"
            " twice, or its loss never carried it",
            fix="scale every loss and unscale once",
            rule="unscale-twice",
        )
    norm = s.norm * scale
    if s.limit is not None and norm > s.limit:
        factor = s.limit / norm
        for limit, words in ((factor, "the clip"), (factor / scale, "the clip, its limit divided by the scale as well,")):
            yield Account(
                kind="clip-before-unscale",
                coefficients=s.shares * limit,
                factor=limit,
                sentence=f"{words} acted while the gradient still carried the loss scale {significant(scale)}: what arrives has"
                f" the norm {significant(limit * s.norm)}, where the limit is {significant(s.limit)}",
                fix="unscale first, then clip: scaler.unscale_(optimizer) before clip_grad_norm_",
                rule="clip-before-unscale",
            )


def _microbatches(s: Setting) -> Iterator[Account]:
    n = s.count
    if n == 1:
        return
    order = np.arange(n)
    subsets = [(order >= first, True) for first in range(n - 1, 0, -1)] + [(order < last, False) for last in range(1, n)]
    subsets += [(order == k, False) for k in range(1, n - 1)] + [(order != k, False) for k in range(1, n - 1)]
    for chosen, late in subsets:
        for divided in (s.shares, np.ones(n), s.shares / s.shares[chosen].sum()):
            yield _only(s, chosen, np.where(chosen, divided, 0.0), late=late)
    if s.scaled is not None:
        yield Account(
            kind="unscaled-inside",
            coefficients=s.clipped(s.shares * s.scaled ** -(n - 1.0 - order)),
            factor=None,
            sentence=f"each microbatch but the last was divided by the loss scale {significant(s.scaled)} again for every one"
            " that followed: the gradient was unscaled inside the window",
            fix="unscale once, after the last backward of the window",
            rule="scale-handled-inside-window",
        )
    for k in range(n):
        yield Account(
            kind="counted-twice",
            coefficients=s.clipped(s.shares * np.where(order == k, 2.0, 1.0)),
            factor=None,
            sentence=f"microbatch {k + 1} of {n} counts twice: its backward ran twice, or its loss was added twice",
            fix="one backward a microbatch",
        )


def _only(s: Setting, chosen: npt.NDArray[np.bool_], coefficients: Vector, *, late: bool) -> Account:
    n, numbers = s.count, [str(k + 1) for k in range(s.count) if chosen[k]]
    counted = f"only microbatch {numbers[0]}" if len(numbers) == 1 else f"only the microbatches {listing(numbers)}"
    hidden = (
        f", or the gradient was unscaled inside it (a part 1/{significant(s.scaled)} as large cannot be seen)" if s.scaled else ""
    )
    return Account(
        kind="last-only" if late else "microbatch-missing",
        coefficients=s.clipped(coefficients),
        factor=None,
        sentence=f"{counted} of {n} reached the optimizer"
        + (f": gradients were zeroed inside the window{hidden}" if late else "; the others are not in it"),
        fix="zero gradients once a window, before its first backward"
        if late
        else "run a backward of every microbatch before the step",
        rule="zero-grad-placement",
    )


def _sign(s: Setting) -> Iterator[Account]:
    yield Account(
        kind="sign",
        coefficients=-s.expected,
        factor=-1.0,
        sentence="the gradient arrives with its sign turned: the optimizer climbs",
        fix="look for a minus in the loss or for maximize=True",
    )
