"""What an inspection found, as plain values: one row for each kind of numbers of each layer, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from truestep.formats import FORMATS
from truestep.inspection.numbers import Kind, Numbers
from truestep.inspection.spread import STORABLE
from truestep.pages.inspection.wording import layer, magnitudes
from truestep.pages.words import percent

SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Movement:
    """The updates of one parameter against its weights' spacing: |update| < ulp(w) / 2 leaves a weight where it is.

    ulp(w) = 2^(max(floor(log2 |w|), e) - m), with e the exponent of the format's smallest normal number and m its mantissa bits.
    """

    parameter: str
    layer: str
    elements: int
    """Weights that had an update: they moved in float32, or their gradient at the optimizer is not 0. Over all attempts."""
    stuck: Mapping[str, int]
    """By format ("fp32", "bf16", "fp16"): how many of them would not move if it stored the weights, rounded to nearest."""

    def share(self, name: str) -> float | None:
        """The share of `elements` that would not move in a format; None of no elements."""
        return self.stuck[name] / self.elements if self.elements else None

    def record(self) -> dict[str, Any]:
        """JSON-ready."""
        shares = {name: self.share(name) for name in self.stuck}
        return {**asdict(self), "stuck": dict(self.stuck), "stuck_share": shares}


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operator of one layer as it ran."""

    layer: str
    name: str
    """As torch calls it: "aten.addmm"."""
    phase: Literal["forward", "backward"]
    dtype: str
    """What it computed in, by our names ("fp16"): that of its floating-point inputs; of its result where it has none."""
    result: str | None
    """The format of its result; None where that is no floating-point tensor."""
    cast: tuple[str, ...]
    """The formats that its inputs had before they were cast for it: empty where none was cast."""
    calls: int

    def record(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self) | {"cast": list(self.cast)}


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to do with one layer, or, where `layer` is None, with the whole model."""

    layer: str | None
    action: Literal["fits", "scale", "keep wide", "master weights", "fp8", "look"]
    """fits: as it is; scale: choose another loss scale; keep wide: float32 or bfloat16; master weights: updates get lost in
    narrow ones; fp8: whether it would do; look: something is wrong with the numbers themselves."""
    text: str
    """One sentence."""
    reason: str
    """The numbers behind it."""

    def record(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """One attempt that was inspected."""

    after: int
    """Attempts that came before it."""
    scale: float
    """Its loss scale; 1 where there is none."""
    completed: bool
    reason: str | None
    """Why it was skipped; None where it was not."""

    def record(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Where the numbers of a model lie, by layer and kind, and what each format would lose of them."""

    task: str | None
    """None: an Update of one's own."""
    policy: str
    format: str
    """What the policy computes in."""
    device: str
    seed: int | None
    """None: an Update of one's own."""
    microbatches: int
    """Of the first inspected window."""
    attempts: tuple[Inspected, ...]
    numbers: tuple[Numbers, ...]
    """Layer by layer in the model's order, each with its kinds."""
    whole: tuple[Numbers, ...]
    """The same kinds of all layers together."""
    movements: tuple[Movement, ...]
    """Empty where no inspected attempt was completed."""
    operations: tuple[Operation, ...]
    """Of the first inspected attempt."""
    advice: tuple[Advice, ...]
    notes: tuple[str, ...]
    """What is assumed, and what was not seen."""

    def of(self, layer: str, kind: Kind) -> Numbers:
        """The row of a layer and a kind; KeyError where there is none."""
        for each in self.numbers:
            if (each.layer, each.kind) == (layer, kind):
                return each
        raise KeyError((layer, kind))

    def all(self, kind: Kind) -> Numbers:
        """The row of a kind for all layers together; KeyError where there is none."""
        for each in self.whole:
            if each.kind == kind:
                return each
        raise KeyError(kind)

    def record(self) -> dict[str, Any]:
        """JSON-ready, without NaN or infinity; what is absent is null."""
        rows = ("attempts", "numbers", "whole", "movements", "operations", "advice")
        return {
            "schema": SCHEMA,
            **{name: getattr(self, name) for name in ("task", "policy", "format", "device", "seed", "microbatches")},
            **{name: [row.record() for row in getattr(self, name)] for name in rows},
            "notes": list(self.notes),
            "regions": {name: _region(name) for name in STORABLE},
        }

    def __str__(self) -> str:
        """The report in plain text."""
        return _report(self)


def _region(name: str) -> dict[str, float | None]:
    """Where a format's regions begin: below the smallest subnormal's half all is 0; then subnormal, normal, overflow."""
    each = FORMATS[name]
    assert each.smallest_subnormal is not None
    return {
        "flushed_to": each.smallest_subnormal / 2,
        "smallest_subnormal": each.smallest_subnormal,
        "smallest_normal": each.smallest_normal,
        "largest": each.max,
    }


def _report(found: Inspection) -> str:
    """All of it, 100 columns at most but for long names."""
    skipped = sum(not each.completed for each in found.attempts)
    scales = " ".join(dict.fromkeys(f"{each.scale:g}" for each in found.attempts))
    lines = [
        f"{found.task or 'an update'}, policy {found.policy} on {found.device}: {len(found.attempts)} attempts inspected"
        f" after {' '.join(str(each.after) for each in found.attempts)}, {skipped} skipped, loss scale {scales}",
        "",
        f"{'layer':24} {'kind':26} {'range':>14} {'flushed':>9} {'measured':>9} {'subnormal':>9} {'overflow':>9}",
        *(_line(each) for each in (*found.whole, *found.numbers)),
        "",
        *(f"{each.layer or 'model'}: {each.scales}" for each in found.numbers if each.scales is not None),
        "",
        *(f"{'model' if each.layer is None else each.layer or 'model'}: {each.text} ({each.reason})" for each in found.advice),
        "",
        *found.notes,
    ]
    return "\n".join(lines)


def _line(each: Numbers) -> str:
    measured = None if each.measured is None else each.measured.share("flushed")
    use = each.in_use
    shares = [_percent(share) for share in (use.share("flushed"), measured, use.share("subnormal"), use.share("overflowed"))]
    row = {"layer": each.layer, "module": each.module, "spread": each.spread.record()}
    return f"{layer(row):24} {each.kind:26} {magnitudes(row):>14} " + " ".join(f"{share:>9}" for share in shares)


def _percent(share: float | None) -> str:
    return "-" if share is None else percent(share)
