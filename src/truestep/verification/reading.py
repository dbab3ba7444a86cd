"""Why what arrived at the optimizer is not the full batch's gradient: the most telling mistake that accounts for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from truestep.engine.clip import ClipNorm, ClipValue
from truestep.pages.words import counted, listing, significant
from truestep.verification.accounts import accounts
from truestep.verification.by_value import ValueCut, value_cut
from truestep.verification.clipping import cut
from truestep.verification.coefficients import Geometry, geometry
from truestep.verification.cut import Length
from truestep.verification.directions import directions
from truestep.verification.evidence import Evidence
from truestep.verification.leaks import faint
from truestep.verification.measured import measured
from truestep.verification.setting import Account, Setting

NAMED = 3
"""Parameters that a sentence names."""
ASIDE = 0.05
"""A share that is no combination of the gradients, from which on only a mistake whose very numbers are there is named."""
WITHOUT_CAUSE = frozenset({"factor", "uneven-weights", "other-count"})
"""Kinds that say what was measured: nothing to add to one that says what was done."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What was done to the gradient, in words."""

    kind: str
    sentence: str
    factor: float | None
    """What arrived over what should have; None where that is not one number."""
    fix: str
    rule: str | None = None
    """The rule of `truestep audit` that finds the place in a script; None where there is none."""
    also: tuple[str, ...] = ()
    """Other kinds that would leave the same numbers, here."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What one attempt left, in scalar products: to be read again when the norms of all attempts are known."""

    setting: Setting
    missing: tuple[str, ...]
    """Parameters that got nothing although the window has something for them."""
    zero: frozenset[str]
    """Those of them that got zeros."""
    count: int
    """Of all parameters."""
    value: ValueCut | None
    """What elements were cut to, other than declared."""


def read(evidence: Evidence) -> Reading | None:
    """The mistake that accounts for what arrived; None where no combination of their gradients does, or the right one.

    Then something else is to blame: a model or a loss that couples examples, chance, or the precision. `remainder` says how much.
    """
    seen = observed(evidence)
    return concluded(seen) if isinstance(seen, Observed) else seen


def observed(evidence: Evidence) -> Observed | Reading | None:
    """What there is to be read; a reading where it is one at once, and None where nothing can be."""
    if not _finite(evidence.arrived):
        return Reading(
            kind="not-finite",
            sentence="the gradient that the optimizer was given is not finite, and it stepped all the same",
            factor=None,
            fix="judge the gradient before the step, and skip it: scaler.step(optimizer) does",
            rule="skip-not-atomic",
        )
    if not _finite(evidence.reference):
        return Reading(
            kind="made-finite",
            sentence="the full batch's own gradient is not finite, and what the optimizer was given is: something was put in its"
            " place, and the optimizer stepped; its momentum, its count and weight decay moved with it",
            factor=None,
            fix="skip such an attempt as a whole: change no gradient that is not finite, and let scaler.step(optimizer) judge it",
            rule="skip-not-atomic",
        )
    if sum(evidence.weights) <= 0:
        return None
    value = value_cut(evidence.arrived, evidence.clipped_reference, clip=evidence.clip, scale=evidence.scale)
    whole = _geometry(evidence, value)
    missing = _missing(whole, evidence)
    return Observed(
        setting=_setting(evidence, whole.over([name for name in whole.names if name not in missing])),
        missing=tuple(missing),
        zero=frozenset(name for name in missing if name in evidence.arrived),
        count=len(whole.names),
        value=value,
    )


def concluded(seen: Observed, lengths: tuple[Length, ...] = ()) -> Reading | None:
    """The mistake that accounts for it, by the norms of every attempt that stepped."""
    setting = replace(seen.setting, lengths=lengths)
    reading = _of(setting) if setting.whole.names else None
    if seen.missing:
        return _nothing_came(seen, reading)
    if seen.value is not None:
        return _cut_by_value(seen.value, reading)
    return reading or _of_some(setting) or _reading(list(faint(setting)))


def _cut_by_value(value: ValueCut, rest: Reading | None) -> Reading | None:
    """That elements were cut, and what those say that were not; where most were, that alone can be told."""
    if rest is not None and not value.alone:
        return replace(rest, sentence=f"{rest.sentence}; and {value.sentence}", also=(*rest.also, value.kind))
    if not value.alone and 2 * value.elements < value.of:
        return None
    rule = None if value.scale is None else "clip-before-unscale"
    return Reading(kind=value.kind, sentence=value.sentence, factor=None, fix=value.fix, rule=rule)


def _finite(gradients: Mapping[str, Tensor]) -> bool:
    return all(bool(torch.isfinite(gradient).all()) for gradient in gradients.values())


def remainder(evidence: Evidence) -> str:
    """How much of what arrived is no combination of the microbatches' gradients, in words."""
    found = _geometry(evidence, None).nearest
    size = f"{significant(100 * found.residual)} % of what arrived is no combination of the microbatches' own gradients"
    explained = f"rounding explains up to {significant(100 * found.rounding)} %"
    apart = "" if found.told_apart else "; some of them are too much alike to be told apart"
    return f"{size}; {explained}{apart}"


def _geometry(evidence: Evidence, value: ValueCut | None) -> Geometry:
    declared = evidence.clip.limit if isinstance(evidence.clip, ClipValue) else None
    return geometry(
        evidence.arrived,
        evidence.parts,
        unit=evidence.compute_unit,
        before=evidence.before,
        limit=declared if value is None else value.limit,
    )


def _setting(evidence: Evidence, whole: Geometry) -> Setting:
    return Setting(
        weights=np.array(evidence.weights, dtype=np.float64),
        scale=evidence.scale,
        limit=evidence.clip.limit if isinstance(evidence.clip, ClipNorm) else None,
        whole=whole,
        gradients=whole,
        held=evidence.held,
    )


def _of(setting: Setting) -> Reading | None:
    """The first account that fits where the right one does not, with the others that fit too."""
    g = setting.gradients
    if g.fits(setting.expected):
        return None
    thought, seen = list(accounts(setting)), list(measured(setting))
    causes = [account for account in seen if account.kind not in WITHOUT_CAUSE]
    every = [*thought, *causes, *cut(setting, sure=False)]
    if g.nearest.explained or g.nearest.residual < ASIDE:  # else something is there that no weight of a microbatch makes
        every += [*directions(setting, thought), *(account for account in seen if account.kind in WITHOUT_CAUSE)]
    fitting = [account for account in every if g.fits(account.coefficients)]
    return _reading(fitting)


def _reading(fitting: Sequence[Account]) -> Reading | None:
    if not fitting:
        return None
    first = fitting[0]
    others = dict.fromkeys(account.kind for account in fitting[1:] if account.kind not in WITHOUT_CAUSE)
    return Reading(
        kind=first.kind,
        sentence=first.sentence,
        factor=first.factor,
        fix=first.fix,
        rule=first.rule,
        also=tuple(kind for kind in others if kind != first.kind),
    )


def _missing(whole: Geometry, evidence: Evidence) -> list[str]:
    """The parameters that got nothing although the window has something for them."""
    shares = np.array(evidence.weights) / sum(evidence.weights)
    got = {name for name, gradient in evidence.arrived.items() if bool(gradient.any())}
    least = whole.noise / max(len(whole.names), 1)
    return [name for name in whole.names if name not in got and whole.over([name]).norm(shares) > least]


def _nothing_came(seen: Observed, rest: Reading | None) -> Reading:
    also = () if rest is None else (rest.kind, *rest.also)
    which = _some(list(seen.missing), seen.count)
    if len(seen.zero) == len(seen.missing):
        return Reading(
            kind="zero",
            sentence=f"of {which} the gradient arrived as zero, and it is not: it was zeroed, or too small for the format and the"
            " loss scale",
            factor=0.0,
            fix="zero gradients after the step only; in float16, scale the loss",
            rule="fp16-without-scaler",
            also=also,
        )
    return Reading(
        kind="no-gradient",
        sentence=f"{which} received no gradient, or are in no optimizer that stepped",
        factor=0.0,
        fix="give every optimizer the parameters that it is to train, after they were moved or replaced, and look for detach()",
        rule="no-gradient-for-optimizer",
        also=also,
    )


def _of_some(setting: Setting) -> Reading | None:
    """The mistake that accounts for most of the parameters of which the right combination does not, if not for all."""
    names = setting.whole.names
    alone = {name: replace(setting, gradients=setting.whole.over([name])) for name in names}
    wrong = [name for name in names if alone[name].gradients.arrived > 0 and not alone[name].gradients.fits(setting.expected)]
    alike = dict[str, list[str]]()
    for name in wrong:
        each = _of(alone[name])
        if each is not None and each.kind not in WITHOUT_CAUSE:
            alike.setdefault(each.kind, []).append(name)
    off = max(alike.values(), key=len, default=[])
    reading = _of(replace(setting, gradients=setting.whole.over(off))) if off and len(off) < len(names) else None
    if reading is None:
        return None
    mixed = [name for name in wrong if name not in off]
    words = f"of {_some(off, len(names))}: {reading.sentence}"
    if reading.kind == "unscale-twice" and mixed:  # what both losses reach holds parts of either size
        return replace(
            reading,
            kind="backward-not-scaled",
            sentence=f"{words}; others, {listing(mixed[:NAMED])} among them, are a mixture: one of several losses was not scaled",
            rule="backward-not-scaled",
        )
    return replace(reading, sentence=words)


def _some(names: list[str], count: int) -> str:
    shown = [*names[:NAMED], *(["others"] if len(names) > NAMED else [])]
    return f"{len(names)} of {counted(count, 'parameter')} ({listing(shown)})"
