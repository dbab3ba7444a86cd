"""What all events have: their place in the order of the run, and the line that led to them."""

from __future__ import annotations

from dataclasses import dataclass

from truestep.audit.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that the loop did; `order` counts them over the run."""

    order: int
    site: Site | None
