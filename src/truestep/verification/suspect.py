"""Reads an attempt that is beyond what the formats explain, while the state that it started from is still at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from truestep.engine.weights import Weight, sum_of
from truestep.verification.criterion import Computed
from truestep.verification.evidence import Evidence
from truestep.verification.reference import Gradients, part_of
from truestep.verification.subject import Full, Subject
from truestep.verification.subject_state import Snapshot

if TYPE_CHECKING:
    from truestep.verification.coupling import Coupling
    from truestep.verification.cut import Length
    from truestep.verification.reading import Observed, Reading


class Traces(NamedTuple):
    """What an attempt leaves for a moment."""

    full: Full
    start: Snapshot
    """The state that it started from."""
    arrived: Gradients
    reference: Gradients
    """Before any clip."""
    wanted: Gradients
    """As it should have arrived."""
    left: Gradients | None
    """What `.grad` still held when the window began; None where it held nothing that can be read."""


class Suspect(NamedTuple):
    """What could be read of the first attempt that is beyond."""

    seen: Observed | Reading | None
    coupling: Coupling | None
    remainder: str | None
    """How much is no combination of the microbatches' gradients, where neither was found."""

    def told(self, lengths: Sequence[Length]) -> dict[str, Any]:
        """The fields of a Verification, now that the norms of all attempts are known."""
        from truestep.verification import reading  # noqa: PLC0415 - only a failure needs it

        found = reading.concluded(self.seen, tuple(lengths)) if isinstance(self.seen, reading.Observed) else self.seen
        return {"reading": found, "coupling": self.coupling, "remainder": None if found is not None else self.remainder}


def read(subject: Subject, traces: Traces, computed: Computed, *, before: Gradients | None) -> Suspect:
    """The mistake that it looks like; where it looks like none, what couples the examples of a batch.

    Costs a float32 pass for each microbatch, and for the coupling a few more.
    """
    from truestep.verification import reading  # noqa: PLC0415 - only a failure needs it

    full = traces.full
    with traces.start():
        evidence = _evidence(subject, traces, computed, before)
        seen = reading.observed(evidence)
        if (reading.concluded(seen) if isinstance(seen, reading.Observed) else seen) is not None:
            return Suspect(seen, None, None)
        inside = _inside(subject, traces, computed)
        if inside is not None:
            return Suspect(inside, None, None)
        found = None if full.joined is None else _coupling(subject, full, evidence)
        return Suspect(seen if found is None else None, found, reading.remainder(evidence) if found is None else None)


def _inside(subject: Subject, traces: Traces, computed: Computed) -> Reading | None:
    from truestep.verification import penalty  # noqa: PLC0415 - only a failure without a reading needs it

    return penalty.scaled_inside(subject, traces.full, traces.arrived, computed)


def _coupling(subject: Subject, full: Full, evidence: Evidence) -> Coupling | None:
    from truestep.verification import coupling  # noqa: PLC0415 - only a failure without a reading needs it

    with subject.in_float32():
        return coupling.find(subject.model, subject.mean_loss, full.window, full.joined, evidence.weights)


def _evidence(subject: Subject, traces: Traces, computed: Computed, before: Gradients | None) -> Evidence:
    window = traces.full.window
    before = before if traces.left is None else traces.left
    weights = subject.weights(window)
    return Evidence(
        weights=tuple(_number(weight, weights) for weight in weights),
        scale=computed.scale,
        clip=subject.clip,
        arrived=_on_cpu(traces.arrived),
        reference=_on_cpu(traces.reference),
        clipped_reference=_on_cpu(traces.wanted),
        parts=tuple(_on_cpu(part_of(subject, microbatch)) for microbatch in window),
        before=None if before is None else _on_cpu(before),
        held=traces.left is not None,
        compute_unit=computed.unit,
    )


def _number(weight: Weight, every: list[Weight]) -> float:
    """One number for a weight of several terms: the sum of its shares."""
    total = sum_of(every)
    if not isinstance(weight, Mapping) or not isinstance(total, Mapping):
        return float(weight)  # type: ignore[arg-type]  # both are numbers, or neither is
    return sum(part / total[term] for term, part in weight.items() if total[term])


def _on_cpu(gradients: Gradients) -> dict[str, Tensor]:
    return {name: gradient.detach().to(torch.device("cpu")) for name, gradient in gradients.items()}
