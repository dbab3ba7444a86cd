"""Which parameters an update is about, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer


def parameters_of(*optimizers: Optimizer) -> list[Parameter]:
    """Every parameter of the optimizers, each once, in the order of their groups."""
    return list({id(p): p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}.values())


def names_of(model: nn.Module, *optimizers: Optimizer) -> dict[int, str]:
    """A name for each parameter by its id: the model's, or its place in an optimizer where the model does not own it."""
    names = {
        id(p): f"param_groups[{i}]['params'][{j}]"
        for optimizer in optimizers
        for i, group in enumerate(optimizer.param_groups)
        for j, p in enumerate(group["params"])
    }
    return names | {id(p): name for name, p in model.named_parameters()}


def trained(params: Sequence[Parameter]) -> list[Parameter]:
    """What a backward has to reach: a loss may freeze parameters while it runs."""
    return [p for p in params if p.requires_grad]


def bits_of(values: Tensor) -> Tensor:
    """The elements of a 16-bit or 32-bit format as integers of the same bits, without a copy."""
    return values.detach().view(torch.int32 if values.dtype is torch.float32 else torch.int16)


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one format are equal bit for bit, so that a NaN equals itself."""
    return torch.equal(bits_of(one), bits_of(other))
