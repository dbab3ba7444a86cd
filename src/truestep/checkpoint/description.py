"""What a checkpoint says of itself in plain text, readable without loading it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from truestep.engine.counts import Counts


@dataclass(frozen=True, kw_only=True)
class Description:
    """When a checkpoint was saved, of what, and by which versions.

    >>> here = Description(serial=3, counts=Counts(attempts=7), quality=None, policy="fp16", torch="2.14", truestep="1")
    >>> Description.from_dict(here.as_dict()) == here
    True
    """

    serial: int
    """The how many-th save into its folder: the newest is the one saved last, whatever its attempts."""
    counts: Counts
    quality: float | None
    """What the caller gave; None: nothing. NaN and infinities are kept, and are never the best."""
    policy: str
    torch: str
    truestep: str

    def as_dict(self) -> dict[str, Any]:
        """JSON values; the quality as text, which has words for NaN and infinity."""
        quality = None if self.quality is None else repr(self.quality)
        return dataclasses.asdict(self) | {"quality": quality}

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> Description:
        """The description that `as_dict` was called on; KeyError, TypeError or ValueError for anything else."""
        quality = record["quality"]
        known = {field.name: record[field.name] for field in dataclasses.fields(Description)}
        return Description(
            **known | {"counts": Counts(**record["counts"]), "quality": None if quality is None else float(quality)}
        )
