"""What the formats can explain of a gap, parameter by parameter, derived from how the gradient was computed. Pure.

The tolerance of a parameter's gradient r at one attempt is

    SAFETY * (u sqrt(D) |r| + (u / v) e) + k |r| + c |r| + f

* u is the unit roundoff of the coarsest format that the attempt rounded to, and D how many operations of one microbatch rounded
  to it (both counted while it ran): D roundings that are independent add up to at most u sqrt(D).
* e is the error of the plain float32 full batch against float64, and v float32's unit roundoff: e / v measures how much this
  gradient magnifies a rounding (cancellation, long sums), and u / v takes that to the attempt's format.
* k is the share of the gradient that sits on a kink (ReLU, max pooling) nearer than the roundings reach: see `kinks`. It is
  looked for only where the rest does not explain the gap, and is 0 elsewhere.
* c is what torch's clip_grad_norm_ shortens beyond the limit, for it divides by the norm plus 1e-6: 1e-6 over the norm, in a loop
  of one's own that is declared to clip to a norm. Truestep's own clip divides by the norm.
* f is what underflow takes: half the smallest number of the format, divided by the loss scale, for n elements and N microbatches
  that sqrt(D) roundings reach: sqrt(n N D).

|r| and e are at least what they are over all attempts (the median, the root mean square), for the rounding errors of a sum follow
the size of its terms and not that of a sum which one window happens to bring near 0.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from truestep.pages.words import percent, significant
from truestep.verification.gap import Gap

FLOAT32_UNIT, FLOAT32_SMALLEST = 2.0**-24, 2.0**-126

SAFETY = 3.0
"""Roundings are not quite independent, and a gradient of one element tells e badly. Of 15,400 gaps (logistic and digits on 200
seeds, bytes-lm on 40; fp32, bf16 and fp16; 4 attempts of 4 microbatches) half needed 0.25 or less, the largest of the low formats
0.44, and float32 on a single element 0.82 in one of a hundred, 1.6 at most: this is twice the largest ever seen. These are beside
kinks. An attempt that is explained without kinks is not searched for any, so that an element on the wrong side of a ReLU may fill
what is left: of digits in float16 (200 seeds, 8 attempts) the largest error is 0.996 of its tolerance, and 0.60 where kinks are
always looked for; beside them all 9,600 gaps then need 0, and without them up to 13."""

LIMIT = 0.4
"""The largest relative tolerance at which a gradient that is half or twice as long still shows, with an error of its own."""


@dataclass(frozen=True, kw_only=True)
class Computed:
    """How the gradient of one attempt was computed."""

    unit: float
    """Unit roundoff of the coarsest format."""
    format: str
    operations: float
    """That rounded to it, for one microbatch."""
    smallest: float
    """The smallest number of that format above 0."""
    scale: float | None
    """The loss scale; None: unknown, and underflow explains nothing."""
    microbatches: int
    kinks: float
    """The share of the gradient on a kink."""
    clip: float = 0.0
    """What the clip shortens beyond its limit, relative."""
    plain_unit: float = FLOAT32_UNIT
    """Unit roundoff of the plain full batch: v; coarser than float32's where the model casts by itself."""
    judged_by_float64: bool

    @property
    def relative(self) -> float:
        """The part of the tolerance that is the same for all parameters, relative to |r|."""
        return SAFETY * self.unit * math.sqrt(self.operations) + self.kinks + self.clip

    def explain(self, every: Sequence[Gap], *, whole: float) -> bool:
        """Whether each gap of this attempt is explained, or cannot be judged, by what it tells itself: the other attempts can
        only explain more."""
        share = min(LIMIT, self.relative)  # no tolerance is smaller
        return all(
            gap.error <= share * gap.reference < math.inf or judged(gap, Level.of([gap]), self, whole=whole).within is not False
            for gap in every
        )

    def floor(self, elements: int) -> float:
        """What underflow takes from a gradient of so many elements, in original units."""
        lost = 0.0 if self.scale is None else self.smallest / 2 / self.scale
        return lost * math.sqrt(elements * self.microbatches * self.operations)


@dataclass(frozen=True, kw_only=True)
class Level:
    """What one parameter's gradient is like over all attempts."""

    size: float
    """The median of |r|."""
    plain_error: float
    """The root mean square of |f - r|."""

    @staticmethod
    def of(every: Sequence[Gap]) -> Level:
        """Over its gaps; of those that are finite."""
        sizes = [gap.reference for gap in every if math.isfinite(gap.reference)]
        errors = [gap.plain_error for gap in every if math.isfinite(gap.plain_error)]
        return Level(
            size=statistics.median(sizes) if sizes else 0.0,
            plain_error=math.sqrt(statistics.fmean(error**2 for error in errors)) if errors else 0.0,
        )


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """One parameter at one attempt: whether the formats explain its gap."""

    gap: Gap
    tolerance: float | None
    """Of the relative error; None where it is not judged, or where the reference is 0."""
    within: bool | None
    """None: not judged."""
    words: str | None
    """Why it is not judged, or what is the matter beside size; None: nothing to add."""

    @property
    def excess(self) -> float:
        """The error over what is explained: above 1 where it is beyond; 0 where nothing is judged."""
        if self.within is None:
            return 0.0
        relative = self.gap.relative
        if relative is None or not self.tolerance:
            return 0.0 if self.within else math.inf
        return relative / self.tolerance


def judged(gap: Gap, level: Level, computed: Computed, *, whole: float) -> Judgement:
    """Hold one gap against what the formats explain; `whole` is |r| of all parameters together."""
    if not math.isfinite(gap.reference):
        return _without_reference(gap)
    if not gap.finite:
        return Judgement(gap=gap, tolerance=None, within=False, words="what arrived is not finite")
    if gap.reference == 0 and gap.error == 0:
        return Judgement(gap=gap, tolerance=None, within=True, words="0 in both")
    size, plain = max(gap.reference, level.size), max(gap.plain_error, level.plain_error)
    if not computed.judged_by_float64:  # e is not known: the worst that D roundings of float32 can do
        plain = computed.plain_unit * computed.operations * size
    noise = SAFETY * plain
    if gap.reference * LIMIT <= noise:
        return _of_noise(gap, computed, whole=whole)
    explained = computed.relative * size + noise * computed.unit / computed.plain_unit
    tolerance = explained / gap.reference
    missing = "nothing arrived" if gap.arrived is None else "0 arrived" if gap.arrived == 0 else None
    if tolerance > LIMIT and (missing is None or computed.floor(gap.elements) == 0):
        return _undecided(gap, f"{computed.format} explains up to {percent(tolerance, 2)} of it")
    tolerance = min(LIMIT, tolerance + computed.floor(gap.elements) / gap.reference)
    within = gap.error <= tolerance * gap.reference
    return Judgement(gap=gap, tolerance=tolerance, within=within, words=None if within else missing)


def _without_reference(gap: Gap) -> Judgement:
    """Nothing can be right where the full batch has no gradient; a step with a finite one is wrong for sure."""
    words = "the full batch's own gradient is not finite"
    if gap.arrived is None or not math.isfinite(gap.arrived):
        return _undecided(gap, words)
    return Judgement(gap=gap, tolerance=None, within=False, words=f"{words}, and what arrived is")


def _of_noise(gap: Gap, computed: Computed, *, whole: float) -> Judgement:
    """A gradient that float32 itself cannot tell from 0, unless what arrived there is no rounding of anything."""
    if gap.error > LIMIT * whole and gap.error > SAFETY * gap.reference:
        return Judgement(gap=gap, tolerance=None, within=False, words="the full batch's is 0 but for rounding, and this is not")
    off = gap.plain_relative
    size = "" if off is None else f": float32 itself is off by {percent(off, 2)}"
    return _undecided(gap, f"its gradient is 0 but for rounding{size}")


def _undecided(gap: Gap, words: str) -> Judgement:
    return Judgement(gap=gap, tolerance=None, within=None, words=words)


def derivation(computed: Computed) -> tuple[str, ...]:
    """The criterion in words, with the numbers of this attempt."""
    power, v = round(-math.log2(computed.unit)), f"2^-{round(-math.log2(computed.plain_unit))}"
    lines = [
        f"the coarsest format that operations rounded to is {computed.format}: unit roundoff u = 2^-{power} ="
        f" {significant(computed.unit)}",
        f"D = {computed.operations:.0f} operations a microbatch rounded to it: independent, they add up to u sqrt(D) ="
        f" {significant(computed.unit * math.sqrt(computed.operations))}",
        f"each gradient magnifies a rounding by e / {v}, where e is the plain full batch's own error against float64; times u"
        if computed.judged_by_float64
        else "float64 could not be had: what each gradient magnifies is not measured",
        f"tolerance = {SAFETY:g} (u sqrt(D) |r| + (u / {v}) e) + kinks + clip + underflow, relative to |r|",
    ]
    if computed.kinks:
        lines.append(f"kinks: elements nearer to one than roundings reach move {percent(computed.kinks, 2)} of |r|")
    if computed.clip:
        lines.append(
            f"clip: torch's clip_grad_norm_ divides by the norm plus 1e-6, which is {significant(computed.clip, 2)} of |r|"
        )
    if computed.scale is not None and computed.smallest > FLOAT32_SMALLEST:
        lost = computed.smallest / 2 / computed.scale
        lines.append(f"underflow: below {significant(lost)} (half the smallest number over the loss scale) all is lost")
    lines.append(f"a gradient of which the formats explain more than {percent(LIMIT)} is not judged")
    return tuple(lines)
