"""In which format operators run under float16 autocast, as they themselves see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from truestep.probe.operations import operations

Call = Callable[[torch.Tensor], torch.Tensor]
LOW, HIGH, AS_GIVEN = "float16", "float32", "as given"
OPERATIONS: dict[str, dict[str, Call]] = {
    LOW: {
        "matmul": lambda x: x @ x,
        "linear": lambda x: functional.linear(x, x),
        "bmm": lambda x: torch.bmm(x[None], x[None]),
        "conv1d": lambda x: functional.conv1d(x[None], x[:, :, None]),
        "attention": lambda x: functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    },
    HIGH: {
        "mse_loss": lambda x: functional.mse_loss(x, x * 2),
        "huber_loss": lambda x: functional.huber_loss(x, x * 2),
        "nll_loss": lambda x: functional.nll_loss(x, torch.zeros(4, dtype=torch.long)),
        "bce_with_logits": lambda x: functional.binary_cross_entropy_with_logits(x, x * 0.5),
        "prod": torch.prod,
        "cdist": lambda x: torch.cdist(x, x),
    },
    AS_GIVEN: {
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": lambda x: functional.layer_norm(x, (4,)),
        "exp": torch.exp,
        "log": torch.log,
        "pow": lambda x: x.pow(2),
        "sum": torch.sum,
        "norm": torch.linalg.vector_norm,
        "relu": torch.relu,
        "add": lambda x: x + x,
    },
}
"""As autocast's lists for the CPU have them: cast to the low format, cast to float32, on no list."""


def computed(call: Call) -> tuple[str, str]:
    """The format in which its main operator ran, from a float32 and from a float16 input."""
    first, second = (ran(call, torch.full((4, 4), 0.5, dtype=dtype)) for dtype in (torch.float32, torch.float16))
    return first, second


def ran(call: Call, x: torch.Tensor) -> str:
    """The format of the last operator of a call under float16 autocast, as the operator itself saw it."""
    with operations(torch.nn.Identity()) as seen, torch.autocast("cpu", dtype=torch.float16):
        call(x)
    return str(list(seen.calls)[-1].inputs[0]).removeprefix("torch.")


class Product(torch.autograd.Function):
    """Elementwise forward, and a backward with a product of matrices, which notes the format that it ran in."""

    ran: torch.dtype

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Twice the input, in its format."""
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        """The gradient times a matrix of ones."""
        product = grads[0] @ torch.ones(4, 4)
        Product.ran = product.dtype
        return product.float()


def backward(*, inside: bool) -> str:
    """The format of a product that a backward computes of its own, with the backward inside of autocast, or outside."""
    with torch.autocast("cpu", dtype=torch.float16):
        total = Product.apply(torch.ones(4, 4, requires_grad=True)).sum()
    with torch.autocast("cpu", dtype=torch.float16, enabled=inside):
        torch.autograd.backward(total)
    return str(Product.ran).removeprefix("torch.")
