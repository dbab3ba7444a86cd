"""What an inspection gathers about one kind of numbers of one layer, tensor by tensor."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from truestep.errors import FormatError
from truestep.formats import FORMATS
from truestep.formats.torch_dtypes import format_of
from truestep.inspection.bits import SINGLE, bits_of
from truestep.inspection.counting import AT_ONCE, SMALL, Counting, elements
from truestep.inspection.numbers import SCALED, Kind, Measured, Numbers
from truestep.inspection.relative import Relative
from truestep.inspection.scales import scale_range
from truestep.inspection.spread import NO_LOSSES, Losses, Spread


class _Expected(NamedTuple):
    """A tensor of the float32 run."""

    shape: torch.Size
    there: Tensor | None
    """Of a small one, the bits of its magnitudes; of another, where it is finite and not 0, None meaning everywhere."""

    @staticmethod
    def of(held: Tensor) -> _Expected:
        """What is kept of a tensor."""
        if _is_small(held):
            return _Expected(held.shape, _bits(held))
        if _finite(held) and int(held.count_nonzero()) == held.numel():
            return _Expected(held.shape, None)
        return _Expected(held.shape, (held != 0).logical_and_(held.isfinite()))

    def among(self, where: Tensor) -> int:
        """How many of these stand where `where` says."""
        return int((where if self.there is None else where.logical_and_(self.there)).count_nonzero())


class Row:
    """What was counted, by the scale that it had or would have had; and what low precision made of the float32 run's tensors.

    The tensors of one source (a parameter, an output of a layer) come in one order in float32 and in low precision, so that the
    first is held against the first.
    """

    def __init__(self, layer: str, module: str, kind: Kind) -> None:
        self.layer, self.module, self.kind = layer, module, kind
        self._counted: dict[tuple[int, bool], Counting] = {}
        """By the exponent of the scale, and whether what was counted had it."""
        self._between: dict[int, Counting] = {}
        """By the exponent of the scale that it had."""
        self._relative = Relative()
        self._expected: dict[Hashable, deque[_Expected]] = {}
        """The float32 tensors of this attempt, by source and in order."""
        self._dtypes: set[torch.dtype] = set()
        self._counts = dict.fromkeys(("elements", "flushed", "overflowed", "infinities", "nans", "unmatched"), 0)
        self._pairs: dict[int, list[tuple[Tensor, Tensor]]] = {}
        """By the exponent of the scale, of small tensors the bits in float32 and in low precision, which wait to be compared
        together."""
        self._overflowed_at: list[int] = []
        """The exponents of scales at which finite float32 numbers were not finite in low precision."""

    def count(self, tensor: Tensor, scale: int, *, scaled: bool, blocks: bool) -> None:
        """A tensor, `scale` being the exponent of the loss scale; `scaled`: it has it; `blocks`: what MX makes of it too."""
        held, key = elements(tensor), (scale if self.kind in SCALED else 0, scaled)
        self._counted.setdefault(key, Counting()).add(held)
        if blocks:
            self._relative.add(held)

    def count_between(self, tensor: Tensor, scale: int) -> None:
        """A tensor of an attempt that had no float32 run: what the policy flushed of it is not known."""
        self._between.setdefault(scale if self.kind in SCALED else 0, Counting()).add(elements(tensor))

    def expect(self, source: Hashable, tensor: Tensor) -> None:
        """A tensor of the float32 run, of which low precision will make its own."""
        self._expected.setdefault(source, deque()).append(_Expected.of(elements(tensor)))

    def compare(self, source: Hashable, tensor: Tensor, scale: int) -> None:
        """The same tensor as low precision made it, scaled or not, in an attempt at a scale of this exponent."""
        held, counts = elements(tensor), self._counts
        self._dtypes.add(held.dtype)
        coming = self._expected.get(source)
        expected = coming.popleft() if coming else None
        if expected is None or expected.shape != held.shape:
            counts["unmatched"] += held.numel()
            expected = _Expected(held.shape, _bits(held).zero_() if _is_small(held) else held.new_zeros((), dtype=torch.bool))
        if _is_small(held):
            assert expected.there is not None
            self._pairs.setdefault(scale, []).append((expected.there.view(-1), _bits(held).view(-1)))
            return
        counts["elements"] += held.numel() if expected.there is None else int(expected.there.count_nonzero())
        if int(held.count_nonzero()) < held.numel():
            counts["flushed"] += expected.among(held == 0)
        if not _finite(held):
            counts["infinities"] += int(held.isinf().sum())
            counts["nans"] += int(held.isnan().sum())
            self._overflow(expected.among(held.isfinite().logical_not_()), scale)

    def _overflow(self, count: int, scale: int) -> None:
        """So many overflowed in an attempt at this scale."""
        self._counts["overflowed"] += count
        if count:
            self._overflowed_at.append(scale)

    def _settle(self) -> None:
        """Compare what waits."""
        for scale, pairs in self._pairs.items():
            expected, found = (torch.cat(bits) for bits in zip(*pairs, strict=True))
            self._compare_bits(expected, found, scale)
        self._pairs = {}

    def _compare_bits(self, expected: Tensor, found: Tensor, scale: int) -> None:
        there = (expected != 0).logical_and_(expected < SINGLE.infinity)
        beyond, counts = found >= SINGLE.infinity, self._counts
        counts["elements"] += int(there.sum())
        counts["flushed"] += int((found == 0).logical_and_(there).sum())
        self._overflow(int(there.logical_and_(beyond).sum()), scale)
        counts["infinities"] += int((found == SINGLE.infinity).sum())
        counts["nans"] += int((found > SINGLE.infinity).sum())

    def close(self) -> None:
        """The attempt is over; a skipped one leaves float32 tensors that nothing was compared with."""
        self._expected = {}
        if sum(found.numel() for pairs in self._pairs.values() for _, found in pairs) >= AT_ONCE:
            self._settle()

    def numbers(self, policy: str) -> Numbers:
        """The row, once all attempts are over; `policy` is the format that the policy computes in."""
        self._settle()
        spreads = [(scale, each.spread().shifted(-scale * scaled)) for (scale, scaled), each in self._counted.items()]
        own = [(scale, each) for (scale, each), (_, scaled) in zip(spreads, self._counted, strict=True) if scaled]
        spread = Spread.total([each for _, each in spreads])
        between = {scale: each.spread().shifted(-scale) for scale, each in self._between.items()}
        seen = Spread.total([spread, *between.values()])
        bad = [*self._overflowed_at, *(scale for scale, each in (*own, *between.items()) if each.infinities + each.nans)]
        overflowed_at = min(bad, default=None) if self.kind in SCALED else None
        dtypes = tuple(sorted(map(named_dtype, self._dtypes)))
        stored = FORMATS[dtypes[0] if len(dtypes) == 1 and dtypes[0] in FORMATS else policy]
        return Numbers(
            layer=self.layer,
            module=self.module,
            kind=self.kind,
            tensors=sum(each.tensors for each in self._counted.values()),
            spread=spread,
            between=Spread.total([*between.values()]) if between else None,
            format=stored.name,
            at_one=spread.losses(stored),
            in_use=_sum([each.losses(stored, scale=scale) for scale, each in spreads]),
            measured=Measured(dtypes=dtypes, **self._counts) if dtypes else None,
            scales=scale_range(seen, stored, overflowed_at=overflowed_at) if self.kind in SCALED else None,
            blocks=self._relative.blocks(),
            per_tensor=self._relative.per_tensor(),
            block_error=self._relative.error,
            overflowed_at=overflowed_at,
            note=_note(spread),
        )


def together(rows: list[Numbers], kind: Kind, policy: str) -> Numbers:
    """All layers' rows of one kind as one."""
    spread = Spread.total([each.spread for each in rows])
    between = [each.between for each in rows if each.between is not None]
    measured = [each.measured for each in rows if each.measured is not None]
    counts = ("elements", "flushed", "overflowed", "infinities", "nans", "unmatched")
    added: dict[str, Any] = {name: sum(getattr(each, name) for each in measured) for name in counts}
    overflowed_at = min((each.overflowed_at for each in rows if each.overflowed_at is not None), default=None)
    seen = Spread.total([spread, *between])
    dtypes = tuple(sorted({name for each in measured for name in each.dtypes}))
    return Numbers(
        layer="",
        module="",
        kind=kind,
        tensors=sum(each.tensors for each in rows),
        spread=spread,
        between=Spread.total(between) if between else None,
        format=rows[0].format if len({each.format for each in rows}) == 1 else policy,
        at_one=_sum([each.at_one for each in rows]),
        in_use=_sum([each.in_use for each in rows]),
        measured=Measured(dtypes=dtypes, **added) if measured else None,
        scales=scale_range(seen, FORMATS[policy], overflowed_at=overflowed_at) if kind in SCALED else None,
        blocks={name: _sum([each.blocks[name] for each in rows]) for name in rows[0].blocks},
        per_tensor={name: _sum([each.per_tensor[name] for each in rows]) for name in rows[0].per_tensor},
        block_error=max((each.block_error for each in rows if each.block_error is not None), default=None),
        overflowed_at=overflowed_at,
        note=_note(spread),
    )


def named_dtype(dtype: torch.dtype) -> str:
    """Our name of a dtype, or torch's where the table has none.

    >>> named_dtype(torch.float16), named_dtype(torch.float64)
    ('fp16', 'float64')
    """
    try:
        return format_of(dtype).name
    except FormatError:
        return str(dtype).removeprefix("torch.")


def _is_small(held: Tensor) -> bool:
    """float64 apart, whose bits are others."""
    return held.numel() <= SMALL and held.dtype is not torch.float64


def _bits(held: Tensor) -> Tensor:
    return bits_of(held)[1]


def _finite(held: Tensor) -> bool:
    """Whether every element is finite: a finite sum proves it, in one cheap pass."""
    wide = torch.float64 if held.dtype is torch.float64 else torch.float32
    return math.isfinite(held.sum(dtype=wide).item()) or bool(held.isfinite().all())


def _sum(losses: list[Losses]) -> Losses:
    return sum(losses, NO_LOSSES)


def _note(spread: Spread) -> str | None:
    """What is particular about a spread, in words."""
    if not spread.elements:
        return "no number was seen"
    if spread.zeros == spread.elements:
        return "every number is 0"
    bad = spread.infinities + spread.nans
    if bad:
        return f"{spread.infinities} infinite and {spread.nans} NaN of {spread.elements}"
    return None
