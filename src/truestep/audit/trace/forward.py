"""What is known of the forwards between two backwards."""

from __future__ import annotations

from dataclasses import dataclass

from truestep.audit.site import Site


@dataclass
class Forward:
    """The calls of outermost modules since the last backward."""

    site: Site | None = None
    calls: int = 0
    examples: int | None = None
    tokens: int | None = None
