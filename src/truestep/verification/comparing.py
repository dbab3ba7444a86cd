"""The attempts of one verification, one after another: references, attempt, gap; and the verdict over all of them."""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

import torch

from truestep.engine.clip import ClipNorm
from truestep.engine.gradients import exact_norm
from truestep.pages.words import listing
from truestep.verification import suspect
from truestep.verification.arrival import Arrival
from truestep.verification.bias import Bias, bias_among
from truestep.verification.criterion import FLOAT32_UNIT, Computed, Judgement, Level, derivation, judged
from truestep.verification.cut import Length
from truestep.verification.draws import Draws
from truestep.verification.gap import Gap, gaps, whole
from truestep.verification.leftover import Leftover
from truestep.verification.reference import Gradients, References, clipped, kinks_of, references
from truestep.verification.result import SHOWN, Skipped, Verification
from truestep.verification.roundings import Counting, Roundings
from truestep.verification.rows import row_of
from truestep.verification.skipping import skipped
from truestep.verification.subject import Full, Named, Subject
from truestep.verification.subject_join import mark_of
from truestep.verification.subject_state import Snapshot
from truestep.verification.suspect import Suspect, Traces

TORCH_ADDS = 1e-6
"""What clip_grad_norm_ adds to the norm before it divides."""


class Compared(NamedTuple):
    """One attempt that stepped."""

    attempt: int
    gaps: dict[str, Gap]
    whole: Gap
    computed: Computed
    fresh: bool
    """Whether no attempt before it had the same window."""

    def judged(self, name: str, level: Level) -> Judgement:
        """One parameter of it."""
        return judged(self.gaps[name], level, self.computed, whole=self.whole.reference)


class Comparison:
    """Everything that the attempts so far have shown."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._attempts = 0
        self._microbatches = 0
        self._compared: list[Compared] = []
        self._skipped: list[Skipped] = []
        self._marks: set[tuple[object, ...]] = set()
        self._notes: dict[str, None] = {}
        self._rounded: Roundings | None = None
        self._plain: Roundings | None = None
        self._before: Gradients | None = None
        self._named: Named | None = None
        self._drawn: Draws | None = None
        self._suspect: Suspect | None = None
        self._left: str | None = None  # what was not zeroed before the first window that began with something left

    def attempt(self, full: Full) -> None:
        """Both references from the present state, then the attempt itself, from the same."""
        subject, index = self._subject, self._attempts
        self._attempts += 1
        self._microbatches = self._microbatches or len(full.window)
        self._drawn = Draws.now(subject.device) if self._drawn is None else self._drawn.again()
        named, scale = subject.named(self._named), subject.scale()
        self._named, start = named, Snapshot(named.tensors, self._drawn)
        found, held = self._references(full, named, start), named.stepped
        arrival = Arrival(subject.optimizers, subject.names, known=named.names)
        counting = Counting(paused=lambda: arrival.stepping) if self._rounded is None else None
        left = Leftover(named.trained)
        with counting or nullcontext(), arrival, left:
            said = subject.attempt(full.window)
        if not arrival.stepped:
            self._skip(said, scale, arrival, found, named)
            return
        if counting is not None:
            self._rounded = counting.seen(microbatches=len(full.window))
        traces = Traces(full, start, arrival.gradients, found.judge, self._clipped(found.judge, held), left.readable)
        measured = gaps(arrival.gradients, self._clipped(found.plain, held), traces.wanted)
        together = whole(measured)
        computed = self._computed(found, scale=scale, microbatches=len(full.window), held=held)
        explained = computed.explain(measured, whole=together.reference)
        if not explained:
            with start():
                kinks = kinks_of(subject, full, doubled=found.why_not is None)
            computed = replace(computed, kinks=kinks.risk(computed.unit))
        mark = mark_of(full)
        self._compared.append(Compared(index, {gap.name: gap for gap in measured}, together, computed, mark not in self._marks))
        self._marks.add(mark)
        self._note_what_limits(full, found, arrival)
        self._note_what_is_not_stepped(found, held)
        self._left = self._left or left.words(attempt=index, arrived=together.arrived or 0.0, scale=scale)
        if not explained and self._suspect is None:
            self._look(traces)
        self._before = arrival.gradients

    def result(self) -> Verification:
        """The verdict over all attempts."""
        rows = [row_of(every, bias=self._bias(name)) for name, every in self._judgements().items()]
        verification = Verification(
            subject=self._subject.title,
            policy=self._subject.policy,
            attempts=self._attempts,
            microbatches=self._microbatches,
            skipped=tuple(self._skipped),
            rows=tuple(sorted(rows, key=lambda row: row.rank)),
            criterion=self._derivation(),
            bias=self._bias(),
            reading=None,
            coupling=None,
            remainder=None,
            notes=(*self._notes, *([] if self._left is None else [self._left])),
        )
        if not verification.beyond or self._suspect is None:
            return verification
        return replace(verification, **self._suspect.told(self._lengths()))

    def _bias(self, name: str | None = None) -> Bias:
        """Of one parameter, or all together; a window that comes again brings its roundings again, and shows nothing new."""
        fresh = [each for each in self._compared if each.fresh and (name is None or name in each.gaps)]
        return bias_among([(each.whole if name is None else each.gaps[name], each.computed) for each in fresh])

    def _lengths(self) -> list[Length]:
        """Of the attempts of which every norm is finite."""
        every = [Length(each.whole.arrived or 0.0, each.whole.reference, each.computed.scale) for each in self._compared]
        return [each for each in every if math.isfinite(each.arrived) and math.isfinite(each.wanted)]

    def _skip(self, said: str | None, scale: float | None, arrival: Arrival, found: References, named: Named) -> None:
        """Keep why the present attempt made no step."""
        finite = all(bool(torch.isfinite(gradient).all()) for gradient in found.judge.values())
        scales, withheld = (scale, self._subject.scale()), any(arrival.withheld)
        trained = named.trained.values()
        why = skipped(self._attempts - 1, said=said, scale=scales, withheld=withheld, finite=finite, parameters=trained)
        self._skipped.append(why)

    def _derivation(self) -> tuple[str, ...]:
        """Of the last attempt; of one in which kinks were met, where there was one."""
        shown = max(reversed(self._compared), key=lambda each: each.computed.kinks, default=None)
        return () if shown is None else derivation(shown.computed)

    def _clipped(self, gradients: Gradients, held: frozenset[str]) -> Gradients:
        """As the loop clips them: what no optimizer holds has no part in it."""
        clip = self._subject.clip
        inside = {} if clip is None else {name: gradient for name, gradient in gradients.items() if name in held}
        return {**gradients, **clipped(inside, clip)} if inside else gradients

    def _beyond_the_limit(self, gradients: Gradients, held: frozenset[str]) -> float:
        """How much shorter than declared torch's clip_grad_norm_ may leave them, which a loop of one's own may clip with."""
        clip = self._subject.clip
        if self._subject.policy is not None or not isinstance(clip, ClipNorm):
            return 0.0
        norm = exact_norm([gradient for name, gradient in gradients.items() if name in held])
        return TORCH_ADDS / norm if clip.limit < norm < math.inf else 0.0

    def _references(self, full: Full, named: Named, start: Snapshot) -> References:
        counting, buffers = Counting() if self._plain is None else None, named.parts.buffers
        found = references(self._subject, full, named.trained, buffers=buffers, drawn=start.drawn, counting=counting)
        if counting is not None:
            self._plain = counting.seen(microbatches=1)
        return found

    def _computed(self, found: References, *, scale: float | None, microbatches: int, held: frozenset[str]) -> Computed:
        assert self._rounded is not None
        assert self._plain is not None
        return Computed(
            unit=self._rounded.format.unit,
            format=self._rounded.format.name,
            operations=self._rounded.count,
            smallest=self._rounded.format.smallest,
            scale=scale,
            microbatches=microbatches,
            kinks=0.0,
            clip=self._beyond_the_limit(found.judge, held),
            plain_unit=self._plain.format.unit,
            judged_by_float64=found.why_not is None,
        )

    def _judgements(self) -> dict[str, list[tuple[int, Judgement]]]:
        """Of every parameter at every attempt, by what all attempts tell of its level."""
        levels = {name: self._level(name) for name in dict.fromkeys(name for each in self._compared for name in each.gaps)}
        return {
            name: [(each.attempt, each.judged(name, level)) for each in self._compared if name in each.gaps]
            for name, level in levels.items()
        }

    def _level(self, name: str) -> Level:
        return Level.of([each.gaps[name] for each in self._compared if name in each.gaps])

    def _look(self, traces: Traces) -> None:
        """Where this attempt is beyond, the first to be so, read what it looks like.

        Later ones start from where a wrong update has led: with SGD they may be blown up beyond reading.
        """
        last = self._compared[-1]
        if any(last.judged(name, self._level(name)).within is False for name in last.gaps):
            self._suspect = suspect.read(self._subject, traces, last.computed, before=self._before)

    def _note_what_limits(self, full: Full, found: References, arrival: Arrival) -> None:
        notes = []
        if full.joined is None:
            notes.append(
                f"the microbatches could not be joined ({full.why_not}): the weighted sum of their losses in one backward stands"
                " in, which shows no coupling of examples"
            )
        if not self._compared[-1].fresh:
            notes.append("windows come again: the bias is of the first attempt at each")
        if full.added:
            notes.append("whole numbers in the microbatches were added up, as counts are: say join= where they are none")
        if found.why_not is not None:
            notes.append(f"float64 could not be had ({found.why_not}): the plain float32 full batch judges")
        if self._plain is not None and self._plain.format.unit > FLOAT32_UNIT:
            notes.append(f"the model computes in {self._plain.format.name} by itself, in the plain full batch too")
        if self._compared[-1].whole.reference == 0:
            notes.append("the gradient of a full batch is 0 everywhere: equality says nothing there")
        self._notes |= dict.fromkeys([*notes, *_steps(arrival, self._subject)])

    def _note_what_is_not_stepped(self, found: References, held: frozenset[str]) -> None:
        left = [name for name in found.judge if name not in held]
        if left:
            shown = listing([*left[:SHOWN], *(["others"] if len(left) > SHOWN else [])])
            self._notes[
                f"in no optimizer, though they take gradients: {shown}. The full batch would train them, and no step does: add"
                " them to an optimizer, or freeze them with requires_grad_(False)"
            ] = None


def _steps(arrival: Arrival, subject: Subject) -> list[str]:
    """What was unusual about the steps."""
    notes = []
    for place, steps in enumerate(arrival.steps):
        name = type(subject.optimizers[place]).__name__
        if steps > 1:
            notes.append(f"{name} was stepped {steps} times in one window: its first gradient is compared")
        if not steps:
            notes.append(f"{name} (optimizer {place}) was not stepped in an attempt in which another was")
    if arrival.evaluated:
        notes.append("an optimizer evaluates the loss inside its step: what its first evaluation gave is compared")
    return notes
