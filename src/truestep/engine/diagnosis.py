"""Why an attempt was skipped, found after it: an ordinary attempt pays nothing for it but a copy of the random state."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from truestep.engine.gradients import Verdict
from truestep.engine.outcome import Reason, Skip
from truestep.engine.recording import Recording
from truestep.engine.scale import LossScale
from truestep.errors import StateError
from truestep.probe.backward import Fault, first_fault
from truestep.probe.buffers import Buffers
from truestep.probe.finiteness import all_finite, first_input, first_parameter, not_finite, tensors
from truestep.probe.origin import Origin, Trace

T = TypeVar("T")

SMALLEST = 2.0**-126
"""A factor of a loss at which its gradient is not finite only if no factor makes it so: float32's smallest normal number."""

LARGE_WEIGHT = 1e3
"""Beyond the weights that initializations give, and usual training leaves: worth a word on the learning rate."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a skipped attempt left to be examined."""

    model: nn.Module
    params: Sequence[Parameter]
    """What a backward reaches."""
    gradients: Sequence[tuple[str, Tensor]]
    """The elements of the scaled gradient, in float32, by the names of their parameters."""
    microbatches: Sequence[Any]
    losses: Mapping[int, float]
    """The losses that had a backward, by the index of their microbatch; of several terms the first that is not finite."""
    terms: Mapping[int, str]
    """The names of the terms in `losses` that are not finite; empty where the loss has no terms."""
    scale: LossScale
    recording: Recording | None
    """None for an attempt() block, whose forwards cannot be run again."""

    def bad_loss(self, index: int) -> str:
        """A loss that is not finite, in words."""
        whose = f"term {self.terms[index]!r} of " if index in self.terms else ""
        return f"{whose}the loss of microbatch {index} is {self.losses[index]}"


def diagnose(evidence: Evidence, verdict: Verdict) -> Skip:
    """The reason of a skip: what a smaller scale cures, found by trying; else what the first bad value was computed from."""
    if verdict.unscaling_overflows:
        skip = _skip(Reason.UNSCALE, _worst(evidence), "finite while scaled, beyond float32 once unscaled")
    elif evidence.recording is None:
        skip = _untried(evidence, "an attempt() block cannot be run again")
    else:
        skip = _tried(evidence, _Replays(evidence, evidence.recording))
    return skip if skip.curable or skip.reason in (Reason.INPUT, Reason.PARAMETER) else _with_weights(evidence, skip)


class _Replays:
    """What can be found by replays, each from the random state and buffers that the window had."""

    def __init__(self, evidence: Evidence, recording: Recording) -> None:
        self._evidence, self._recording = evidence, recording
        self._buffers = Buffers(evidence.model)
        self._buffers.keep()

    def overflow_of_the_scale(self) -> Skip | None:
        """A backward overflow, where every gradient is finite at the lowest loss scale that is permitted."""
        scale = self._evidence.scale
        if scale.kind == "none":
            return None
        lowest = scale.lowest
        for index, loss in enumerate(self._losses()):
            if index in self._evidence.losses and not self._finite_at(lowest, loss):
                return None
        detail = f"every gradient is finite at a loss scale of {lowest:g}, the lowest permitted"
        if not scale.can_shrink:
            detail = f"{detail}, and the {scale.kind} scale {scale.value:g} cannot shrink"
        return _skip(Reason.BACKWARD, _worst(self._evidence), detail, curable=scale.can_shrink)

    def traced(self) -> Skip | None:
        """What the first bad gradient, or else the first bad loss, was computed from; None where no scale is small enough."""
        only_loss = None
        losses = self._losses()
        for index, microbatch in enumerate(self._evidence.microbatches):
            trace = Trace(self._evidence.model, _named(index, microbatch))
            with trace.watching():
                loss = next(losses)
            if index not in self._evidence.losses:
                continue
            fault = first_fault(loss.float(), self._evidence.params, SMALLEST)
            origin = trace.origin(loss)
            if origin is None and fault is not None:
                return self._undefined(index, trace, fault)
            if origin is not None and (fault is not None or only_loss is None):
                skip = self._bad_loss(index, origin)
                if fault is not None:
                    return skip
                only_loss = skip
        return only_loss

    def overflow_at_any_scale(self) -> Skip:
        """The gradient itself, or the sum of the microbatches' gradients, is beyond its format."""
        scale = self._evidence.scale
        at_work = "no loss scale is at work" if scale.kind == "none" else f"the loss scale may not fall below {scale.min:g}"
        return _skip(Reason.BACKWARD, _worst(self._evidence), f"each loss and its own gradient are finite, and {at_work}")

    def _bad_loss(self, index: int, origin: Origin) -> Skip:
        what = self._evidence.bad_loss(index)
        named = _brought_in(index, origin, self._evidence)
        if named is not None:
            return named
        wide = self._in_float32(index, lambda loss: loss.item())
        if wide is not None and math.isfinite(wide):
            found = "finite" if index in self._evidence.terms else f"{wide:g}"
            return _skip(Reason.FORWARD, origin.place, f"{what}, and {found} in float32: {origin.text}")
        return _skip(Reason.FORWARD if origin.overflow else Reason.LOSS, origin.place, f"{what}: {origin.text}")

    def _undefined(self, index: int, trace: Trace, fault: Fault) -> Skip:
        """A finite loss whose gradient is not, however small the scale: by what the backward began with, or by its own step."""
        what = f"the loss of microbatch {index} is finite, and its gradient is not, at any loss scale"
        origin = trace.behind(fault.node)
        named = None if origin is None else _brought_in(index, origin, self._evidence)
        if named is not None:
            return replace(named, detail=f"{named.detail}; {what}")
        if origin is not None and origin.overflow:
            return _skip(Reason.FORWARD, origin.place, f"{origin.text}; {what}")
        names = {id(p): name for name, p in self._evidence.model.named_parameters()}
        place = names.get(id(self._evidence.params[fault.parameter])) or _worst(self._evidence)
        site = trace.site(fault.node)
        step = fault.node.name() if site is None else f"{fault.node.name()}, the backward of {site.words},"
        kept = "finite numbers" if origin is None else f"what its forward had left: {origin.text}"
        wide = "; in float32 it is finite" if self._in_float32(index, lambda loss: self._finite_at(1.0, loss)) else ""
        return _skip(Reason.UNDEFINED, place, f"{what}: {step} made {fault.value} of {kept}{wide}")

    def _finite_at(self, scale: float, loss: Tensor) -> bool:
        seed = torch.full_like(loss, scale, dtype=torch.float32)
        gradients = torch.autograd.grad(loss.float(), list(self._evidence.params), seed, allow_unused=True)
        return all_finite(gradients)

    def _losses(self) -> Iterator[Tensor]:
        self._buffers.restore()
        for index, loss in enumerate(self._recording.replay()):
            if math.isfinite(self._evidence.losses.get(index, loss.item())) != math.isfinite(loss.item()):
                raise StateError(f"the loss of microbatch {index} came out as {loss.item()}")
            yield loss

    def _in_float32(self, index: int, look: Callable[[Tensor], T]) -> T | None:
        """`look` at the loss of a microbatch in float32; None where what a narrower policy runs does not run in float32."""
        self._buffers.restore()
        try:
            with closing(self._recording.replay(in_float32=True)) as losses:  # while it is open, the weights are float32 too
                return look(next(islice(losses, index, None)))
        except (RuntimeError, TypeError, ValueError):
            return None


def _tried(evidence: Evidence, replays: _Replays) -> Skip:
    """The skip by running the window again; by looking alone where the user's code, run once more than it expected, fails."""
    no_scale_helps = False
    try:
        if (skip := replays.overflow_of_the_scale()) is not None:
            return skip
        no_scale_helps = True
        return replays.traced() or replays.overflow_at_any_scale()
    except Exception as error:
        skip = _untried(evidence, f"it could not be run again: {type(error).__name__}: {error}")
        return replace(skip, reason=Reason.UNDEFINED, curable=False) if no_scale_helps and skip.curable else skip


def _brought_in(index: int, origin: Origin, evidence: Evidence) -> Skip | None:
    """The skip for what came into the forward from outside, an input or a parameter; None for what an operation made.

    A constant that is not finite may be an input that went through NumPy: it is one where the microbatch holds such a value.
    """
    if origin.role == "input":
        return _skip(Reason.INPUT, origin.place, origin.text)
    if origin.role == "parameter":
        return _skip(Reason.PARAMETER, origin.place, f"{origin.text}, since before this attempt")
    if origin.role == "constant":
        bad = first_input(evidence.microbatches[index])
        return None if bad is None else _skip(Reason.INPUT, f"microbatch {index}{bad[0]}", f"it holds {bad[1]}")
    return None


def _untried(evidence: Evidence, because: str) -> Skip:
    """What can be told without running anything again: from the outside in, and from the gradient alone."""
    bad = {i: loss for i, loss in evidence.losses.items() if not math.isfinite(loss)}
    parameter = first_parameter(evidence.model)
    inputs = ((i, first_input(microbatch)) for i, microbatch in enumerate(evidence.microbatches) if i in (bad or evidence.losses))
    bad_input = next(((f"microbatch {i}{found[0]}", f"it holds {found[1]}") for i, found in inputs if found is not None), None)
    if bad and bad_input is not None:
        return _skip(
            Reason.INPUT, bad_input[0], f"{bad_input[1]}, and a loss is not finite; whether by it is not known: {because}"
        )
    if parameter is not None:
        return _skip(Reason.PARAMETER, parameter[0], f"it holds {parameter[1]}, since before this attempt")
    if bad:
        return _skip(Reason.LOSS, None, f"{evidence.bad_loss(next(iter(bad)))}; no module is named: {because}")
    note = "" if bad_input is None else f"; {bad_input[0]}: {bad_input[1]}"
    if evidence.scale.kind == "none":
        detail = f"the loss is finite, its gradient is not, and no loss scale is at work{note}; {because}"
        return _skip(Reason.UNDEFINED, _worst(evidence), detail)
    detail = f"told from the gradient alone{note}; {because}"
    return _skip(Reason.BACKWARD, _worst(evidence), detail, curable=evidence.scale.can_shrink)


def _named(index: int, microbatch: Any) -> Iterator[tuple[str, Tensor]]:
    return ((f"microbatch {index}{path}", tensor) for path, tensor in tensors(microbatch))


def _worst(evidence: Evidence) -> str:
    """The first parameter whose gradient is not finite, else the one with the largest element."""
    held = evidence.gradients
    bad = next((name for name, gradient in held if not_finite(gradient) is not None), None)
    return bad or max(held, key=lambda pair: pair[1].abs().max().item())[0]


def _with_weights(evidence: Evidence, skip: Skip) -> Skip:
    """`skip` with a word on the learning rate where a weight is finite and huge."""
    sizes = {
        name: p.detach().abs().max().item()
        for name, p in evidence.model.named_parameters()
        if p.numel() and p.requires_grad and p.layout is torch.strided
    }
    name = max(sizes, key=sizes.__getitem__, default=None)
    if name is None or not LARGE_WEIGHT < sizes[name] < math.inf:
        return skip
    return replace(skip, detail=f"{skip.detail}; {name!r} holds a weight of {sizes[name]:.3g}: is the learning rate too large?")


def _skip(reason: Reason, place: str | None, detail: str, *, curable: bool = False) -> Skip:
    return Skip(reason=reason, place=place, detail=detail, curable=curable)
