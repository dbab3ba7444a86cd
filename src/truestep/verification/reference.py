"""What should have arrived: the plain full batch from the same state, in float32, and in float64 as the judge of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from truestep.engine.clip import Clip
from truestep.engine.gradients import exact_norm
from truestep.engine.policy import POLICIES
from truestep.engine.randomness import TorchRandomState
from truestep.engine.weights import Weight
from truestep.errors import LossError
from truestep.probe.buffers import Buffers
from truestep.tasks.place import line_of
from truestep.verification.draws import Draws
from truestep.verification.kinks import Kinks
from truestep.verification.roundings import Counting
from truestep.verification.subject import Full, Subject
from truestep.verification.subject_join import mapped

Gradients = Mapping[str, Tensor]
Params = Mapping[str, Parameter]


@dataclass(frozen=True, kw_only=True)
class References:
    """Two gradients of one full batch, as they are before any clip; a parameter that the loss does not reach is not there."""

    plain: Gradients
    """Float32 throughout."""
    judge: Gradients
    """Float64 throughout, or `plain` where that could not be had."""
    why_not: str | None
    """Why float64 could not be had; None where it was."""


def references(
    subject: Subject,
    full: Full,
    trained: Params,
    *,
    buffers: Buffers | None = None,
    drawn: Draws | None = None,
    counting: Counting | None = None,
) -> References:
    """Both from the present state, which is afterwards as it was: parameters, gradients, buffers, random state.

    Args:
        trained: whose gradients these are, by name.
        buffers: the model's, where somebody has them already.
        drawn: the present random state, where somebody has it already.
        counting: counts what the float32 pass rounds to.
    """
    device, weights = subject.device, subject.weights(full.window) if subject.counts else None
    with subject.in_float32(), _as_before(subject, drawn, buffers) as again, _float32(device):
        with counting or nullcontext():
            plain = _plain(subject, full, trained, weights)
        first = TorchRandomState.now(device)
        again()
        try:
            judge = _in_float64(subject, full, trained, weights)
            alike = drew_alike(first, TorchRandomState.now(device))
            why_not = None if alike else "the model draws other numbers in float64"
        except Exception as error:
            why_not = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
    return References(plain=plain, judge=plain if why_not else judge, why_not=why_not)


def drew_alike(one: TorchRandomState, other: TorchRandomState) -> bool:
    """Whether two passes have moved torch's generators to the same place, that of the device too."""
    alike = torch.equal(one.cpu, other.cpu)
    return alike and (one.cuda is None or other.cuda is None or torch.equal(one.cuda, other.cuda))


def kinks_of(subject: Subject, full: Full, *, doubled: bool) -> Kinks:
    """What the full batch passes from the present state: in float64 where that can be had, else in float32."""
    kinks = Kinks()
    with subject.in_float32(), _as_before(subject), _float32(subject.device), kinks:
        (_in_float64 if doubled else _gradients)(subject, full, subject.named().trained)
    return kinks


def part_of(subject: Subject, microbatch: object) -> Gradients:
    """The float32 gradient of one microbatch's own mean loss, from the present state."""
    with subject.in_float32(), _as_before(subject):
        with _float32(subject.device):
            loss = subject.mean_loss(subject.model, microbatch)
        return _of(subject.named().trained, loss)


def clipped(gradients: Gradients, clip: Clip | None) -> Gradients:
    """What `clip` leaves of them, as new tensors in their own format; they themselves where it leaves all."""
    if clip is None or not gradients:
        return gradients
    held = {name: gradient.clone() for name, gradient in gradients.items()}
    norm = exact_norm(list(held.values()))
    factor, _ = clip(list(held.values()), norm=norm, unit=1.0)
    return {name: gradient * factor for name, gradient in held.items()}


def _plain(subject: Subject, full: Full, trained: Params, weights: list[Weight] | None) -> Gradients:
    """In float32, or in the format that the weights of a loop of one's own have; LossError where the loss does not fit those."""
    try:
        return _gradients(subject, full, trained, weights)
    except RuntimeError as error:
        narrow = {p.dtype for p in trained.values() if p.dtype in (torch.float16, torch.bfloat16)}
        if not narrow or "type" not in str(error):
            raise
        raise LossError(
            f"{line_of(subject.loss)}: the loss does not take {narrow.pop()} weights outside of the loop's own casts: {error}",
            hint="verify computes loss= by itself, in float64 too: let it cast what the model is given to the weights' format,"
            " as in x.to(next(model.parameters()).dtype)",
        ) from error


def _gradients(subject: Subject, full: Full, trained: Params, weights: list[Weight] | None = None) -> Gradients:
    return _of(trained, subject.window_loss(full, weights))


def _in_float64(subject: Subject, full: Full, trained: Params, weights: list[Weight] | None = None) -> Gradients:
    """Of the window itself nothing is asked where its weights are known, and it is joined."""
    window = full.window if weights is not None and full.joined is not None else _doubles(full.window)
    with _doubled(subject, trained):
        return _gradients(subject, full._replace(window=window, joined=_doubles(full.joined)), trained, weights)


def _float32(device: torch.device) -> AbstractContextManager[None]:
    """Inside, float32 is computed as float32, with a graph and without an autocast: entered once for both references."""
    return POLICIES["fp32"].arithmetic(device)


def _of(params: Params, loss: Tensor) -> Gradients:
    """By torch.autograd.grad, which leaves `.grad` alone and fires no hook that steps in the middle of a backward."""
    if not loss.requires_grad:
        return {}
    found = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
    return {name: _dense(gradient) for name, gradient in zip(params, found, strict=True) if gradient is not None}


def _dense(gradient: Tensor) -> Tensor:
    return gradient.to_dense() if gradient.layout is not torch.strided else gradient.detach()


@contextmanager
def _as_before(subject: Subject, drawn: Draws | None = None, buffers: Buffers | None = None) -> Iterator[Callable[[], None]]:
    """Buffers and random state, at the end and whenever it is called; a plain forward and backward write no parameter."""
    buffers, drawn = buffers or Buffers(subject.model), drawn or Draws.now(subject.device)
    buffers.keep()

    def again() -> None:
        buffers.restore()
        drawn.restore()

    try:
        yield again
    finally:
        again()


@contextmanager
def _doubled(subject: Subject, trained: Params) -> Iterator[None]:
    """Inside, the parameters and floating-point buffers of the model, and what else is stepped, are float64.

    In their own place: a loss that reaches the model by another way than its argument sees them too.
    """
    own = [*trained.values(), *subject.model.parameters(), *subject.model.buffers()]
    held = {id(tensor): (tensor, tensor.data) for tensor in own if tensor.is_floating_point()}
    try:
        for tensor, data in held.values():
            tensor.data = data.double()
        yield
    finally:
        for tensor, data in held.values():
            tensor.data = data


def _doubles(microbatch: Any) -> Any:
    return mapped(microbatch, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
