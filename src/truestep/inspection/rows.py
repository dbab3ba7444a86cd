"""What an inspection gathers about one kind of numbers of one layer, tensor by tensor."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from truestep.errors import FormatError
from truestep.formats import FORMATS
from truestep.formats.torch_dtypes import format_of
from truestep.inspection.counting import Counting, elements
from truestep.inspection.numbers import SCALED, Kind, Measured, Numbers
from truestep.inspection.scales import scale_range
from truestep.inspection.spread import NO_LOSSES, Losses, Spread


class _Expected(NamedTuple):
    """A tensor of the float32 run."""

    shape: torch.Size
    there: Tensor | None
    """Where it is finite and not 0; None: everywhere."""

    def elements(self) -> int:
        """How many elements are finite and not 0."""
        return self.shape.numel() if self.there is None else int(self.there.count_nonzero())

    def among(self, where: Tensor) -> int:
        """How many of these stand where `where` says."""
        return int((where if self.there is None else where.logical_and_(self.there)).count_nonzero())


class Row:
    """The float32 numbers, counted by the scale that they would have had; and what low precision made of the same tensors.

    The tensors of one source (a parameter, an output of a layer) come in one order in float32 and in low precision, so that the
    first is held against the first.
    """

    def __init__(self, layer: str, module: str, kind: Kind) -> None:
        self.layer, self.module, self.kind = layer, module, kind
        self._counted: dict[int, Counting] = {}
        self._expected: dict[Hashable, deque[_Expected]] = {}
        """The float32 tensors of this attempt, by source and in order."""
        self._dtypes: set[torch.dtype] = set()
        self._counts = dict.fromkeys(("elements", "flushed", "overflowed", "infinities", "nans", "unmatched"), 0)

    def expect(self, source: Hashable, tensor: Tensor, scale: int, *, compared: bool, blocks: bool) -> None:
        """A tensor of the float32 run, in original units; `compared`: low precision will make the same one.

        `blocks`: what MX makes of it is counted too.
        """
        held = elements(tensor)
        full = self._counted.setdefault(scale if self.kind in SCALED else 0, Counting()).add(held, blocks=blocks)
        if compared:
            there = None if full else (held != 0).logical_and_(held.isfinite())
            self._expected.setdefault(source, deque()).append(_Expected(held.shape, there))

    def compare(self, source: Hashable, tensor: Tensor) -> None:
        """The same tensor as low precision made it, scaled or not."""
        held, counts = elements(tensor), self._counts
        self._dtypes.add(held.dtype)
        finite = _finite(held)
        if not finite:
            counts["infinities"] += int(held.isinf().sum())
            counts["nans"] += int(held.isnan().sum())
        coming = self._expected.get(source)
        expected = coming.popleft() if coming else None
        if expected is None or expected.shape != held.shape:
            counts["unmatched"] += held.numel()
            return
        counts["elements"] += expected.elements()
        counts["flushed"] += expected.among(held == 0)
        if not finite:
            counts["overflowed"] += expected.among(held.isfinite().logical_not_())

    def close(self) -> None:
        """The attempt is over; a skipped one leaves float32 tensors that nothing was compared with."""
        self._expected = {}

    def numbers(self, policy: str) -> Numbers:
        """The row, once all attempts are over; `policy` is the format that the policy computes in."""
        spread = sum((each.spread() for each in self._counted.values()), Spread(bins={}))
        dtypes = tuple(sorted(map(named_dtype, self._dtypes)))
        stored = FORMATS[dtypes[0] if len(dtypes) == 1 and dtypes[0] in FORMATS else policy]
        return Numbers(
            layer=self.layer,
            module=self.module,
            kind=self.kind,
            tensors=sum(each.tensors for each in self._counted.values()),
            spread=spread,
            format=stored.name,
            at_one=spread.losses(stored),
            in_use=_sum([each.spread().losses(stored, scale=scale) for scale, each in self._counted.items()]),
            measured=Measured(dtypes=dtypes, **self._counts) if dtypes else None,
            scales=scale_range(spread, stored) if self.kind in SCALED else None,
            blocks=self._by_name(lambda each: each.blocks()),
            per_tensor=self._by_name(lambda each: each.per_tensor()),
            note=_note(spread),
        )

    def _by_name(self, losses: Callable[[Counting], dict[str, Losses]]) -> dict[str, Losses]:
        found = [losses(each) for each in self._counted.values()]
        return {name: _sum([each[name] for each in found]) for name in found[0]} if found else {}


def together(rows: list[Numbers], kind: Kind, policy: str) -> Numbers:
    """All layers' rows of one kind as one."""
    spread = sum((each.spread for each in rows), Spread(bins={}))
    measured = [each.measured for each in rows if each.measured is not None]
    counts = ("elements", "flushed", "overflowed", "infinities", "nans", "unmatched")
    added: dict[str, Any] = {name: sum(getattr(each, name) for each in measured) for name in counts}
    dtypes = tuple(sorted({name for each in measured for name in each.dtypes}))
    return Numbers(
        layer="",
        module="",
        kind=kind,
        tensors=sum(each.tensors for each in rows),
        spread=spread,
        format=rows[0].format if len({each.format for each in rows}) == 1 else policy,
        at_one=_sum([each.at_one for each in rows]),
        in_use=_sum([each.in_use for each in rows]),
        measured=Measured(dtypes=dtypes, **added) if measured else None,
        scales=scale_range(spread, FORMATS[policy]) if kind in SCALED else None,
        blocks={name: _sum([each.blocks[name] for each in rows]) for name in rows[0].blocks},
        per_tensor={name: _sum([each.per_tensor[name] for each in rows]) for name in rows[0].per_tensor},
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
        return f"{spread.infinities} infinite and {spread.nans} NaN in float32 already, of {spread.elements}"
    return None
