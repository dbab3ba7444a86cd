"""What a loss gives each of its elements, read off its graph."""

from __future__ import annotations

import math

from torch import Tensor

from truestep.audit.events import Share
from truestep.probe.denominator import read_loss
from truestep.probe.term import Term


def read_share(root: Tensor, scale: float) -> tuple[Share | None, str | None]:
    """The share of the main term of `root`, the loss scale taken out; None, and why, where the graph does not tell."""
    reading = read_loss(root)
    if not reading.main:
        return None, reading.unread or "a graph without a reduction"
    shares = {share.node + repr(share.weight): share for term in reading.main if (share := _share(term, scale)) is not None}
    if not shares:
        return None, f"{reading.main[0].node}: its elements cannot be counted"
    return next(iter(shares.values())), None


def _share(term: Term, scale: float) -> Share | None:
    """For a mean, (what it is multiplied by) / (elements); for a sum what multiplies it, over the elements that it adds."""
    if term.kind == "mean":
        return Share(weight=term.scale / term.count / scale, elements=term.count, node=term.node)
    elements = term.elements
    if elements is None or not math.isfinite(elements) or elements <= 0:
        return None
    return Share(weight=term.scale / scale / term.count, elements=elements, node=term.node)
