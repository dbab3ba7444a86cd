"""The backward of losses at their factors, into given parameters, by the shortest way into torch's engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter

import torch
from torch import Tensor
from torch.autograd import graph
from torch.nn import Parameter
from torch.overrides import has_torch_function

from truestep.engine.gradients import FLOAT32_MAX
from truestep.errors import GradientError

_TORCHS = torch.autograd.backward
_RUN = getattr(graph, "_engine_run_backward", None)
"""What torch.autograd.backward calls once it has looked at its arguments; absent where torch no longer has it."""
if getattr(getattr(_TORCHS, "__code__", None), "co_filename", None) != torch.autograd.__file__:
    _RUN = None  # somebody stands in its place already, who is to see every backward


def backward(losses: Sequence[Tensor], factors: Sequence[float], params: Sequence[Parameter]) -> None:
    """Add the gradient of each loss times its factor to `.grad` of `params`, and of nothing else; GradientError without any.

    A factor is the seed of its loss's backward, which gives the bits that a product would give, and saves the product and the
    product's own backward. A loss in a narrower format is widened first: in float16 the factor itself might overflow.

    Looking at the arguments takes torch.autograd.backward 30 microseconds of a small model's backward of 500, and a microsecond
    for each parameter. Plain tensors pass by it; whoever overrides it, by subclass, mode or patch, is called as ever.
    """
    wide = tuple([loss.float() for loss in losses])
    seeds = tuple([torch.full_like(loss, _in_float32(factor)) for loss, factor in zip(wide, factors, strict=True)])
    inputs = _demand(params)
    unreached = [p for p in params if p.grad is None]
    if _RUN is None or torch.autograd.backward is not _TORCHS or _is_overridden(wide, inputs):
        torch.autograd.backward(wide, seeds, inputs=inputs)
    else:
        _RUN(wide, seeds, False, False, inputs, allow_unreachable=True, accumulate_grad=True)
    if unreached:
        _part(unreached)


def _demand(params: Sequence[Parameter]) -> tuple[Parameter, ...]:
    if not params:  # for which torch would take every leaf of the graph
        raise GradientError(
            "no parameter of the optimizer takes a gradient any more",
            hint="they were frozen inside the attempt: leave requires_grad alone until it is over",
        )
    return tuple(params)


def _part(params: Sequence[Parameter]) -> None:
    """Give each gradient a memory of its own, in which the next backward adds to it and a factor multiplies it.

    Where several parameters reach a sum through views (`a.view(n) + b.view(n)`), torch 2.14 leaves them one memory for their
    gradients: a second backward is then added twice to each, and a loss scale divided out twice.
    """
    held = [(g.data_ptr(), g, p) for p in params if (g := p.grad) is not None and g.layout is torch.strided]
    end = 0
    for start, gradient, p in sorted(held, key=itemgetter(0)):
        if start < end:
            p.grad = gradient.clone()
        else:
            end = start + gradient.numel() * gradient.element_size()  # `nbytes` is more than torch.compile can follow


def _in_float32(factor: float) -> float:
    """Infinite where float32 does not reach, as a product would be: torch fills a tensor with no number that it cannot hold."""
    return factor if -FLOAT32_MAX <= factor <= FLOAT32_MAX else math.copysign(math.inf, factor)


def _is_overridden(losses: tuple[Tensor, ...], inputs: tuple[Tensor, ...]) -> bool:
    return has_torch_function(losses) or has_torch_function(inputs) or torch._C._are_functorch_transforms_active()
