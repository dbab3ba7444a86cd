"""Gradients that torch lays into one memory reach the optimizer as if each had its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import same

Sum = Callable[[nn.Parameter, nn.Parameter, nn.Parameter], Tensor]

THROUGH_VIEWS: dict[str, Sum] = {
    "rows": lambda a, b, both: a.view(4, 3) + b.view(4, 3) + both.view(8, 3)[:4],
    "flattened": lambda a, b, both: a.flatten() + b.flatten() + both[0].flatten(),
    "joined": lambda a, b, both: torch.cat([a.view(1, 3, 4), b.view(1, 3, 4)]) + both.view(2, 3, 4),
}


class Summed(nn.Module):
    """Parameters that reach the loss in one sum through views; where `apart`, of products whose gradients are their own."""

    def __init__(self, name: str, *, apart: bool) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.a, self.b = (nn.Parameter(torch.randn(3, 4, generator=generator)) for _ in range(2))
        self.both = nn.Parameter(torch.randn(2, 3, 4, generator=generator))
        self.sum, self.apart = THROUGH_VIEWS[name], apart

    def forward(self, x: Tensor) -> Tensor:
        a, b, both = (p * 1 for p in self.parameters()) if self.apart else self.parameters()
        return self.sum(a, b, both).float() * x


def loss(model: nn.Module, x: Tensor) -> Tensor:
    return (model(x) / 8).sin().mean() + 0 * x.sum()


def sgd(params: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, lr=0.1)


def trained(model: nn.Module, microbatches: int, **options: object) -> list[Tensor]:
    update = truestep.Update(model, **({"optimizer": sgd, "loss": loss, "loss_is": "share"} | options))
    for start in (1.0, 7.0):
        assert update([torch.tensor([start + k]) for k in range(microbatches)]).completed
    return [weight.clone() for weight in update.weights().values()]


@pytest.mark.parametrize("policy", ["fp32", "bf16", "bf16-master", "bf16-pure"])
@pytest.mark.parametrize("microbatches", [1, 2, 3])
@pytest.mark.parametrize("name", THROUGH_VIEWS)
def test_a_sum_of_parameters_through_views_trains_as_one_of_products(name: str, microbatches: int, policy: str) -> None:
    options = {"policy": policy, "scale": truestep.LossScale.static(1024.0), "clip": truestep.ClipNorm(0.01)}
    views, products = (trained(Summed(name, apart=apart), microbatches, **options) for apart in (False, True))
    assert same(views, products)


@pytest.mark.parametrize("name", THROUGH_VIEWS)
def test_so_does_an_optimizer_that_evaluates_the_loss_again(name: str) -> None:
    options = {"optimizer": lambda params: torch.optim.LBFGS(params, max_iter=3)}
    views, products = (trained(Summed(name, apart=apart), 2, **options) for apart in (False, True))
    assert same(views, products)


def test_torch_itself_adds_a_second_backward_twice() -> None:
    """Where this fails, torch has been mended, and engine/backward.py need not part gradients any more."""
    a, b = (nn.Parameter(torch.zeros(2, 2)) for _ in range(2))
    for _ in range(2):
        ((a.view(4) + b.view(4)) * torch.ones(4)).sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [[3.0, 3.0], [3.0, 3.0]]  # and not 2: the second backward reached both through one memory
