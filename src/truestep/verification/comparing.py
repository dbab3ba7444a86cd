"""The attempts of one verification, one after another: references, attempt, gap; and the verdict over all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from truestep.engine.weights import Weight, sum_of
from truestep.verification.arrival import Arrival
from truestep.verification.bias import bias_of
from truestep.verification.criterion import SAFETY, Computed, Judgement, Level, derivation, judged
from truestep.verification.evidence import Evidence
from truestep.verification.gap import Gap, gaps, whole
from truestep.verification.reference import Gradients, References, clipped, part_of, references
from truestep.verification.result import Row, Skipped, Verification, row_of
from truestep.verification.roundings import Counting, Roundings
from truestep.verification.subject import Full, Subject
from truestep.verification.subject_state import Snapshot

if TYPE_CHECKING:
    from truestep.verification.coupling import Coupling
    from truestep.verification.reading import Reading


class Compared(NamedTuple):
    """One attempt that stepped."""

    attempt: int
    gaps: dict[str, Gap]
    computed: Computed


class Suspect(NamedTuple):
    """The attempt that is furthest beyond what the formats explain, and what could be read of it at the time."""

    excess: float
    reading: Reading | None
    coupling: Coupling | None


class Comparison:
    """Everything that the attempts so far have shown."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._attempts = 0
        self._microbatches = 0
        self._compared: list[Compared] = []
        self._skipped: list[Skipped] = []
        self._notes: dict[str, None] = {}
        self._roundings: Roundings | None = None
        self._plain_unit: float | None = None
        self._has_kinks = True
        self._before: Gradients | None = None
        self._suspect: Suspect | None = None

    def attempt(self, full: Full) -> None:
        """Both references from the present state, then the attempt itself, from the same."""
        subject, index = self._subject, self._attempts
        self._attempts += 1
        self._microbatches = self._microbatches or len(full.window)
        if full.joined is None:
            self._note(
                f"the microbatches could not be joined ({full.why_not}): the weighted sum of their losses in"
                " one backward stands in, which cannot show a coupling of examples"
            )
        start, scale = Snapshot(subject.model, subject.optimizers), subject.scale()
        found = self._references(full)
        arrival = Arrival(subject.optimizers, subject.names)
        counting = Counting(paused=lambda: arrival.stepping) if self._roundings is None else None
        with counting or nullcontext(), arrival:
            reason = subject.attempt(full.window)
        if not arrival.stepped:
            self._skipped.append(Skipped(attempt=index, reason=reason or _unstepped(arrival)))
            return
        if counting is not None:
            self._roundings = counting.seen(microbatches=len(full.window))
        self._note_steps(arrival)
        computed = self._computed(found, scale=scale, microbatches=len(full.window))
        wanted = clipped(found.judge, subject.clip)
        measured = gaps(arrival.gradients, clipped(found.plain, subject.clip), wanted)
        self._compared.append(Compared(index, {gap.name: gap for gap in measured}, computed))
        self._look(full, start, arrival.gradients, found.judge, wanted, computed)
        self._before = arrival.gradients

    def result(self) -> Verification:
        """The verdict over all attempts."""
        signed = [whole(list(each.gaps.values())).signed for each in self._compared]
        every = self._judgements()
        allowed = SAFETY * max((each.computed.unit for each in self._compared), default=0.0)
        rows = [self._row(name, judgements, allowed=allowed) for name, judgements in every.items()]
        rows.sort(key=lambda row: (row.verdict != "beyond", row.verdict == "not judged", -_excess(row)))
        verification = Verification(
            subject=self._subject.title,
            policy=self._subject.policy,
            attempts=self._attempts,
            microbatches=self._microbatches,
            skipped=tuple(self._skipped),
            rows=tuple(rows),
            criterion=derivation(self._compared[-1].computed) if self._compared else (),
            bias=bias_of(signed, allowed=allowed),
            reading=None,
            coupling=None,
            notes=tuple(self._notes),
        )
        if verification.beyond and self._suspect is not None:
            return _with(verification, self._suspect)
        return verification

    def _references(self, full: Full) -> References:
        counting = Counting() if self._plain_unit is None else None
        found = references(self._subject, full, counting=counting, watch=self._has_kinks)
        if counting is not None:
            roundings = counting.seen(microbatches=1)
            self._plain_unit = roundings.unit
            if roundings.unit > 2.0**-24:
                name = str(roundings.format).removeprefix("torch.")
                self._note(f"the model computes in {name} by itself, in the plain full batch too; float64 judges both")
        if found.kinks is not None:
            self._has_kinks = found.kinks.any
        if found.why_not is not None:
            self._note(f"float64 could not be had ({found.why_not}): the plain float32 full batch judges")
        return found

    def _computed(self, found: References, *, scale: float | None, microbatches: int) -> Computed:
        assert self._roundings is not None
        assert self._plain_unit is not None
        return Computed(
            unit=self._roundings.unit,
            format=str(self._roundings.format).removeprefix("torch."),
            operations=self._roundings.count,
            smallest=self._roundings.smallest,
            scale=scale,
            microbatches=microbatches,
            kinks=0.0 if found.kinks is None else found.kinks.risk(self._roundings.unit),
            plain_unit=self._plain_unit,
            judged_by_float64=found.why_not is None,
        )

    def _judgements(self) -> dict[str, list[tuple[int, Judgement]]]:
        """Of every parameter at every attempt, by what all attempts tell of its level."""
        names = dict.fromkeys(name for each in self._compared for name in each.gaps)
        sizes = [math.hypot(*(gap.reference for gap in each.gaps.values())) for each in self._compared]
        found: dict[str, list[tuple[int, Judgement]]] = {}
        for name in names:
            seen = [(each, size) for each, size in zip(self._compared, sizes, strict=True) if name in each.gaps]
            level = Level.of([each.gaps[name] for each, _ in seen])
            found[name] = [(each.attempt, judged(each.gaps[name], level, each.computed, whole=size)) for each, size in seen]
        return found

    def _row(self, name: str, judgements: list[tuple[int, Judgement]], *, allowed: float) -> Row:
        signed = [judgement.gap.signed for _, judgement in judgements]
        return row_of(judgements, bias=bias_of(signed, allowed=allowed))

    def _look(
        self, full: Full, start: Snapshot, arrived: Gradients, reference: Gradients, wanted: Gradients, computed: Computed
    ) -> None:
        """Where this attempt is further beyond than any before, read what it looks like while its start is at hand."""
        last = self._compared[-1]
        latest = [judgement for every in self._judgements().values() for at, judgement in every if at == last.attempt]
        excess = max((each.excess for each in latest if each.within is False), default=0.0)
        if not excess or (self._suspect is not None and excess <= self._suspect.excess):
            return
        with start():
            self._suspect = self._read(full, arrived, reference, wanted, computed, excess)

    def _read(
        self,
        full: Full,
        arrived: Gradients,
        reference: Gradients,
        wanted: Gradients,
        computed: Computed,
        excess: float,
    ) -> Suspect:
        from truestep.verification import coupling, reading  # noqa: PLC0415 - only a failure needs them

        subject = self._subject
        weights = subject.weights(full.window)
        parts = [part_of(subject, microbatch) for microbatch in full.window]
        evidence = Evidence(
            microbatches=len(full.window),
            weights=tuple(_number(weight, weights) for weight in weights),
            losses=tuple(loss for _, loss in parts),
            scale=computed.scale,
            clip=subject.clip,
            arrived=_on_cpu(arrived),
            reference=_on_cpu(reference),
            clipped_reference=_on_cpu(wanted),
            parts=tuple(_on_cpu(gradients) for gradients, _ in parts),
            before=None if self._before is None else _on_cpu(self._before),
            compute_unit=computed.unit,
        )
        seen = reading.read(evidence)
        if seen is not None or full.joined is None:
            return Suspect(excess, seen, None)
        with subject.in_float32():
            found = coupling.find(subject.model, subject.mean_loss, full.window, full.joined, evidence.weights)
        return Suspect(excess, None, found)

    def _note(self, words: str) -> None:
        self._notes[words] = None

    def _note_steps(self, arrival: Arrival) -> None:
        for place, steps in enumerate(arrival.steps):
            name = type(self._subject.optimizers[place]).__name__
            if steps > 1:
                self._note(f"{name} was stepped {steps} times in one window; the first gradient is compared")
            if not steps:
                self._note(f"{name} (optimizer {place}) was not stepped in an attempt in which another was")
        if arrival.evaluated:
            self._note("an optimizer evaluates the loss inside its step: what its first evaluation gave is compared")


def _with(verification: Verification, suspect: Suspect) -> Verification:
    return replace(verification, reading=suspect.reading, coupling=suspect.coupling)


def _unstepped(arrival: Arrival) -> str:
    if any(arrival.withheld):
        return "a gradient that is not finite: the optimizer was told so, and did nothing"
    return "no optimizer was stepped"


def _excess(row: Row) -> float:
    if row.error is None or not row.tolerance:
        return math.inf if row.verdict == "beyond" else 0.0
    return row.error / row.tolerance


def _number(weight: Weight, every: list[Weight]) -> float:
    """One number for a weight of several terms: the sum of its shares."""
    total = sum_of(every)
    if not isinstance(weight, Mapping) or not isinstance(total, Mapping):
        return float(weight)  # type: ignore[arg-type]  # both are numbers, or neither is
    return sum(part / total[term] for term, part in weight.items() if total[term])


def _on_cpu(gradients: Gradients) -> dict[str, Tensor]:
    return {name: gradient.detach().to(torch.device("cpu")) for name, gradient in gradients.items()}
