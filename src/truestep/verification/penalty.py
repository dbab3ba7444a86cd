"""Whether gradients that the loss takes itself, for a penalty on them, still carried the loss scale: told by doing the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from truestep.pages.words import significant
from truestep.verification.criterion import Computed
from truestep.verification.gap import gaps, whole
from truestep.verification.reading import Reading
from truestep.verification.reference import Gradients, clipped, references
from truestep.verification.subject import Full, Subject


def scaled_inside(subject: Subject, full: Full, arrived: Gradients, computed: Computed) -> Reading | None:
    """A reading where the loss that was declared, with each gradient inside of it times the scale, explains all that arrived.

    No combination of whole losses' gradients does, for only the penalty's part of each is wrong. Costs both references once more.
    """
    if computed.scale in (None, 1.0):
        return None
    with _Times(computed.scale) as times:
        found = references(subject, full, subject.named().trained)
    if not times.met:
        return None
    plain, judge = (_as_stepped(each, subject, arrived) for each in (found.plain, found.judge))
    measured = gaps(arrived, plain, judge)
    if not computed.explain(measured, whole=whole(measured).reference):
        return None
    return Reading(
        kind="penalty-still-scaled",
        sentence="what arrives is the gradient of the loss that was declared, but for the gradients that it takes itself, and"
        f" makes a penalty of: these were multiplied by the loss scale, {significant(computed.scale)}",
        factor=None,
        fix="divide by the scale before the penalty is made of them: gradient / scaler.get_scale()",
        rule="grad-penalty",
    )


def _as_stepped(gradients: Gradients, subject: Subject, arrived: Gradients) -> Gradients:
    inside = {name: gradient for name, gradient in gradients.items() if name in arrived}
    return {**gradients, **clipped(inside, subject.clip)}


class _Times(TorchFunctionMode):
    """Inside, what torch.autograd.grad gives with a graph of its own, to be differentiated again, is multiplied."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factor = factor
        self.met = False

    def __torch_function__(self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func is not torch.autograd.grad or not kwargs.get("create_graph"):
            return found
        self.met = True
        return tuple(None if each is None else each * self._factor for each in found)
