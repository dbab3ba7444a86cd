"""What an inspection found, as plain values: one row for each kind of numbers of each layer, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from truestep.formats import FORMATS
from truestep.inspection.scales import HIGHEST, LOWEST, ScaleRange
from truestep.inspection.spread import STORABLE, Losses, Spread
from truestep.inspection.words import report

SCHEMA = 1

Kind = Literal["weights", "activations", "activation gradients", "weight gradients", "gradients at the optimizer"]
SCALED: tuple[Kind, ...] = ("activation gradients", "weight gradients")
"""The kinds that a backward computes, at the loss scale."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What really stood in the tensors of the attempts in low precision, held against float32 element by element."""

    dtypes: tuple[str, ...]
    """The formats that autocast really used, by our names ("fp16"), or torch's where the table has none; sorted."""
    elements: int
    """Finite and not 0 in float32, where both runs made the same tensor."""
    flushed: int
    """Of these: 0 in the attempt."""
    overflowed: int
    """Of these: infinite or NaN in the attempt."""
    infinities: int
    """In the attempt, whatever stood there in float32."""
    nans: int
    unmatched: int
    """Elements that only one of the two runs had: a model that computes something else in low precision."""

    def share(self, name: Literal["flushed", "overflowed"]) -> float | None:
        """The share of `elements`, from 0 to 1; None of no elements."""
        count: int = getattr(self, name)
        return count / self.elements if self.elements else None

    def record(self) -> dict[str, Any]:
        """JSON-ready: counts, and shares that are null where there are no elements."""
        shares = {"flushed_share": self.share("flushed"), "overflowed_share": self.share("overflowed")}
        return asdict(self) | {"dtypes": list(self.dtypes)} | shares


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """One kind of numbers of one layer, over all inspected attempts; in original units, of the float32 run."""

    layer: str
    """The module's name in the model; "" for the model itself, and for all layers together in `Inspection.whole`."""
    module: str
    """Its class; "" for all layers together."""
    kind: Kind
    tensors: int
    """How many tensors were looked at."""
    spread: Spread
    format: str
    """What `at_one`, `in_use` and `scales` are about: the format that the tensors really had in the attempts, or the policy's,
    where they had several. The row of all layers adds up theirs."""
    at_one: Losses
    """Predicted at scale 1."""
    in_use: Losses
    """Predicted at the loss scale of each attempt; as at 1 where the kind is not scaled. Of all layers: the sum over them."""
    measured: Measured | None
    """None under a policy that computes in float32."""
    scales: ScaleRange | None
    """None for kinds that the loss scale does not multiply."""
    blocks: Mapping[str, Losses]
    """By the name of an MX format: blocks of 32 along the last dimension, each with its own power of two."""
    per_tensor: Mapping[str, Losses]
    """By the name of an fp8 format: each tensor scaled by the largest power of two at which nothing overflows."""
    note: str | None
    """In words what is particular ("every number is 0"); None where nothing is."""

    @property
    def formats(self) -> dict[str, Losses]:
        """Predicted at scale 1, by the name of each format that numbers are stored in."""
        return {name: self.spread.losses(each) for name, each in STORABLE.items()}

    def record(self) -> dict[str, Any]:
        """JSON-ready. `tables` holds the counts lost in each format at each scale 2^from, 2^(from + 1), ..."""
        return {
            "layer": self.layer,
            "module": self.module,
            "kind": self.kind,
            "tensors": self.tensors,
            "format": self.format,
            "spread": self.spread.record(),
            "at_one": self.at_one.record(),
            "in_use": self.in_use.record(),
            "measured": None if self.measured is None else self.measured.record(),
            "scales": None if self.scales is None else self.scales.record(),
            "formats": _records(self.formats),
            "blocks": _records(self.blocks),
            "per_tensor": _records(self.per_tensor),
            "tables": {name: _table(self.spread, name) for name in STORABLE},
            "note": self.note,
        }


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
        return report(self)


def _records(losses: Mapping[str, Losses]) -> dict[str, Any]:
    return {name: each.record() for name, each in losses.items()}


def _table(spread: Spread, name: str) -> dict[str, Any]:
    """The losses at every scale from 2^LOWEST to 2^HIGHEST: what a page looks up instead of computing it."""
    at = [spread.losses(FORMATS[name], scale=scale) for scale in range(LOWEST, HIGHEST + 1)]
    return {"from": LOWEST, **{each: [getattr(one, each) for one in at] for each in ("flushed", "subnormal", "overflowed")}}


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
