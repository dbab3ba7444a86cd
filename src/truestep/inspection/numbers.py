"""One kind of numbers of one layer: how they are spread, what formats lose of them, and what was lost. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from truestep.formats import FORMATS
from truestep.inspection.scales import HIGHEST, LOWEST, ScaleRange
from truestep.inspection.spread import STORABLE, Losses, Spread

Kind = Literal["weights", "activations", "activation gradients", "weight gradients", "gradients at the optimizer"]
SCALED: tuple[Kind, ...] = ("activation gradients", "weight gradients")
"""The kinds that a backward computes, at the loss scale."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What really stood in the tensors of the attempts in low precision, held against float32 element by element."""

    dtypes: tuple[str, ...]
    """The formats that autocast really used, by our names ("fp16"), or torch's where the table has none; sorted."""
    elements: int
    """Finite and not 0 in float32, where both runs made the same tensor. Of the first and the last inspected attempt; under
    a policy whose format has float32's range, of the first microbatch of the first."""
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
    """One kind of numbers of one layer, in original units.

    Of the policy's own run in all inspected attempts where its format has float32's range (weights: of the first and the last),
    else of a float32 run of the windows of the first and the last.
    """

    layer: str
    """The module's name in the model; "" for the model itself, and for all layers together in `Inspection.whole`."""
    module: str
    """Its class; "" for all layers together."""
    kind: Kind
    tensors: int
    """How many tensors were looked at."""
    spread: Spread
    between: Spread | None = None
    """Under fp16, the policy's own numbers of the inspected attempts between the first and the last, in original units: what it
    flushed is among their zeros. Only `scales` goes by them too. None where there are none, or `spread` has them."""
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
    block_error: float | None = None
    """What shares of `blocks` and `per_tensor` may be off, in 19 of 20 such draws; None where every block was counted.

    Both are of the first inspected attempt, and of a tensor of more than 65,536 elements of 2,048 of its blocks, drawn,
    each of which stands for as many as there are for one.
    """
    overflowed_at: int | None = None
    """Of kinds that the loss scale multiplies, the exponent of the smallest one at which the policy's own numbers, of whatever
    attempt, were infinite or NaN where float32's, as far as they are known, were not; `scales` ends below. None: at none."""
    note: str | None
    """In words what is particular ("every number is 0"); None where nothing is."""

    @property
    def seen(self) -> Spread:
        """All numbers that are known: `spread`, and those between."""
        return self.spread if self.between is None else self.spread + self.between

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
            "between": None if self.between is None else self.between.record(),
            "at_one": self.at_one.record(),
            "in_use": self.in_use.record(),
            "measured": None if self.measured is None else self.measured.record(),
            "scales": None if self.scales is None else self.scales.record(),
            "formats": _records(self.formats),
            "blocks": _records(self.blocks),
            "per_tensor": _records(self.per_tensor),
            "block_error": self.block_error,
            "tables": {name: _table(self.spread, name) for name in STORABLE},
            "overflowed_at": self.overflowed_at,
            "note": self.note,
        }


def _records(losses: Mapping[str, Losses]) -> dict[str, Any]:
    return {name: each.record() for name, each in losses.items()}


def _table(spread: Spread, name: str) -> dict[str, Any]:
    """The losses at every scale from 2^LOWEST to 2^HIGHEST: what a page looks up instead of computing it."""
    return {"from": LOWEST, **spread.table(FORMATS[name], range(LOWEST, HIGHEST + 1))}
