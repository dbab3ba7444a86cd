"""Why an attempt was skipped, found after it: an ordinary attempt pays nothing for it but a copy of the random state."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from truestep.engine.gradients import Verdict
from truestep.engine.outcome import Reason, Skip
from truestep.engine.replay import Replay
from truestep.engine.scale import LossScale
from truestep.probe.finiteness import first_input, first_module, first_parameter, not_finite


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a skipped attempt left to be examined."""

    model: nn.Module
    params: Sequence[Parameter]
    names: Mapping[int, str]
    microbatches: Sequence[Any]
    losses: Mapping[int, float]
    """The losses that had a backward, by the index of their microbatch; of several terms the first that is not finite."""
    term: str | None = None
    """The name of the first term that is not finite; None where the loss has no terms."""
    scale: LossScale
    replay: Replay | None
    """None for an attempt() block, whose forwards cannot be run again."""


def diagnose(evidence: Evidence, verdict: Verdict) -> Skip:
    """The reason of a skip: what a smaller scale cures, else from the outside in: input, parameter, loss, gradient."""
    if verdict.unscaling_overflows:
        return _skip(Reason.UNSCALE, _worst(evidence), "finite while scaled, beyond float32 once unscaled")
    if not all(map(math.isfinite, evidence.losses.values())):
        return _input(evidence) or _parameter(evidence) or _forward(evidence)
    found = _gradient(evidence)
    if found.reason is Reason.BACKWARD:
        return found
    return _input(evidence) or _parameter(evidence) or found


def _input(evidence: Evidence) -> Skip | None:
    for index, microbatch in enumerate(evidence.microbatches):
        bad = first_input(microbatch)
        if bad is not None:
            return _skip(Reason.INPUT, f"microbatch {index}{bad[0]}", f"it holds {bad[1]}")
    return None


def _parameter(evidence: Evidence) -> Skip | None:
    bad = first_parameter(evidence.model)
    return None if bad is None else _skip(Reason.PARAMETER, bad[0], f"it held {bad[1]} before this attempt")


def _forward(evidence: Evidence) -> Skip:
    """A loss that is not finite: an overflow where float32 has none or a module put out an infinity, else undefined."""
    index, loss = next((i, loss) for i, loss in evidence.losses.items() if not math.isfinite(loss))
    whose = "" if evidence.term is None else f"term {evidence.term!r} of "
    what = f"{whose}the loss of microbatch {index} is {loss}"
    if evidence.replay is None:
        return _skip(Reason.LOSS, None, f"{what}; an attempt() block cannot be run again to name a module")
    wide = _nth(evidence.replay, index, in_float32=True).item()
    losses = evidence.replay.losses()
    for _ in islice(losses, index):
        pass
    culprit = first_module(evidence.model, lambda: next(losses))
    where = "the loss function" if culprit is None else f"{culprit.kind} {culprit.name!r} put out {culprit.value}"
    place = "the loss" if culprit is None else culprit.name
    if math.isfinite(wide):
        return _skip(Reason.FORWARD, place, f"{what}, and {wide:g} in float32; {where}")
    overflowed = culprit is not None and culprit.value != "nan"
    return _skip(Reason.FORWARD if overflowed else Reason.LOSS, place, f"{what}, in float32 too; {where}")


def _gradient(evidence: Evidence) -> Skip:
    """A finite loss with a gradient that is not: an overflow where some permitted loss scale leaves it finite."""
    place, scale = _worst(evidence), evidence.scale
    if scale.kind == "none":
        return _skip(Reason.UNDEFINED, place, "the loss is finite, its gradient is not, and no loss scale is at work")
    if evidence.replay is None:
        detail = "told from the gradient alone: an attempt() block cannot be run again at a smaller scale"
        return _skip(Reason.BACKWARD, place, detail, curable=scale.can_shrink)
    lowest = scale.min if scale.kind == "dynamic" else min(scale.value, 1.0)
    if not _finite_at(evidence, evidence.replay, lowest):
        return _skip(Reason.UNDEFINED, place, f"not finite at a loss scale of {lowest:g} either")
    detail = (
        f"finite at a loss scale of {lowest:g}" if scale.can_shrink else f"the {scale.kind} scale {scale.value:g} cannot shrink"
    )
    return _skip(Reason.BACKWARD, place, detail, curable=scale.can_shrink)


def _finite_at(evidence: Evidence, replay: Replay, scale: float) -> bool:
    """Whether the gradient of every microbatch that had a backward is finite at another loss scale."""
    for index, loss in enumerate(replay.losses()):
        if index not in evidence.losses:
            continue
        seed = torch.full_like(loss, scale, dtype=torch.float32)
        gradients = torch.autograd.grad(loss.float(), list(evidence.params), seed, allow_unused=True)
        if any(not_finite(g) is not None for g in gradients if g is not None):
            return False
    return True


def _nth(replay: Replay, index: int, *, in_float32: bool) -> Tensor:
    return next(islice(replay.losses(in_float32=in_float32), index, None))


def _worst(evidence: Evidence) -> str:
    """The first parameter whose gradient is not finite, else the one with the largest element."""
    held = [(evidence.names[id(p)], p.grad) for p in evidence.params if p.grad is not None and p.grad.numel()]
    bad = next((name for name, gradient in held if not_finite(gradient) is not None), None)
    return bad or max(held, key=lambda pair: pair[1].abs().max().item())[0]


def _skip(reason: Reason, place: str | None, detail: str, *, curable: bool = False) -> Skip:
    return Skip(reason=reason, place=place, detail=detail, curable=curable)
