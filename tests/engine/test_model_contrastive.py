"""Losses that couple the examples of a window: whole as one microbatch, or by cached gradients of the embeddings."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import truestep
from tests.engine.loops import same, weights

N, IN, OUT, TAU = 12, 5, 4, 0.5
U = 2.0**-24


class Towers(nn.Module):
    """Two linear encoders, of images and of texts say."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.left, self.right = nn.Linear(IN, OUT, bias=False), nn.Linear(IN, OUT, bias=False)

    def forward(self, pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return self.left(pair[0]), self.right(pair[1])


def pairs(seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(N, IN, generator=generator), torch.randn(N, IN, generator=generator)


def info_nce(z: tuple[Tensor, Tensor]) -> Tensor:
    """The mean over rows of -log softmax of a pair's own similarity (van den Oord et al. 2018, equation 4)."""
    return F.cross_entropy(z[0] @ z[1].T / TAU, torch.arange(len(z[0])))


def coupled(model: nn.Module, pair: tuple[Tensor, Tensor]) -> Tensor:
    return info_nce(model(pair))


def exact_gradient_and_bound(model: Towers) -> tuple[list[Tensor], list[Tensor]]:
    """The float64 gradient of the full batch by both weights, and how far a float32 one may lie from it, in any split.

    A similarity is a product of two embeddings, of IN products each: |ds| <= gamma(2 IN + OUT + 2) * |x||W| |W'||x'| / tau.
    A row of softmax moves by at most twice the largest |ds| of its row, and costs an exp, a sum over N and a quotient. Its error
    passes, with its own value, through two products and the sum over N rows and the microbatches.
    """
    x, y = (data.double() for data in pairs())
    w, v = (p.detach().double().requires_grad_() for p in (model.left.weight, model.right.weight))
    a, b = x @ w.T, y @ v.T
    info_nce((a, b)).backward()
    with torch.no_grad():
        size = (x.abs() @ w.abs().T) @ (y.abs() @ v.abs().T).T / TAU
        ds = (2 * IN + OUT + 4) * U * size
        soft = (a @ b.T / TAU).softmax(1)
        d_soft = soft * (2 * ds.max(1, keepdim=True).values + (N + 4) * U)
        pull, d_pull = (soft - torch.eye(N)).abs() / (N * TAU), d_soft / (N * TAU)
        reach = (2 * IN + 2 * N + 8) * U
        bounds = [
            ((d_pull + reach * pull) @ (y.abs() @ v.abs().T)).T @ x.abs(),
            ((d_pull + reach * pull).T @ (x.abs() @ w.abs().T)).T @ y.abs(),
        ]
    return [w.grad, v.grad], bounds


def test_a_whole_window_as_one_microbatch_is_the_loss_of_the_full_batch() -> None:
    model = Towers()
    exact, bounds = exact_gradient_and_bound(model)
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=coupled)
    outcome = update([pairs()])
    assert outcome.weight_check.startswith("equals the loss's denominator")
    for p, gradient, bound in zip(model.parameters(), exact, bounds, strict=True):
        assert bool(((p.grad.double() - gradient).abs() <= bound).all())
        assert float(bound.max()) < 1e-4  # against gradients of about 1


def test_a_split_of_a_coupled_loss_is_another_loss() -> None:
    """Lesson B7: fewer negatives are in each microbatch, and no weighting brings them back."""
    model = Towers()
    exact, _ = exact_gradient_and_bound(model)
    truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=coupled)(parts(3))
    assert float((model.left.weight.grad.double() - exact[0]).abs().max()) > 1e-2


def parts(number: int) -> list[tuple[Tensor, Tensor]]:
    return list(zip(*(data.chunk(number) for data in pairs()), strict=True))


def cached(model: nn.Module, number: int) -> tuple[float, list[tuple[Tensor, Tensor]]]:
    """The loss of the whole window, and its gradient by the embeddings of each microbatch (Gao et al. 2021, GradCache)."""
    with torch.no_grad():
        embedded = [model(part) for part in parts(number)]
    whole = [torch.cat(side).requires_grad_() for side in zip(*embedded, strict=True)]
    loss = info_nce((whole[0], whole[1]))
    loss.backward()
    return loss.item(), list(zip(*(side.grad.chunk(number) for side in whole), strict=True))


def pulled(z: tuple[Tensor, Tensor], gradients: tuple[Tensor, Tensor]) -> Tensor:
    """A scalar whose gradient by the embeddings `z` is `gradients`."""
    return sum((side * gradient).sum() for side, gradient in zip(z, gradients, strict=True))


@pytest.mark.parametrize("number", [1, 3, 4])
@pytest.mark.parametrize("scale", [1.0, 65536.0])
def test_cached_gradients_with_shares_are_the_gradient_of_the_full_batch(number: int, scale: float) -> None:
    model = Towers()
    exact, bounds = exact_gradient_and_bound(model)
    update = truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=0.0),
        loss=coupled,
        loss_is="share",
        scale=truestep.LossScale.static(scale),
    )
    _, gradients = cached(model, number)
    with update.attempt() as attempt:
        for part, gradient in zip(parts(number), gradients, strict=True):
            attempt.backward(pulled(model(part), gradient), microbatch=part)
    assert attempt.outcome.weight is None
    assert attempt.outcome.examples == N
    for p, gradient, bound in zip(model.parameters(), exact, bounds, strict=True):
        assert bool(((p.grad.double() - gradient).abs() <= bound).all())


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
def test_cached_gradients_train_bit_for_bit_as_by_hand(policy: str) -> None:
    dtype = torch.bfloat16 if policy == "bf16" else None
    hand, ours = Towers(), Towers()
    steps = torch.optim.AdamW(hand.parameters(), lr=1e-2)
    update = truestep.Update(
        ours,
        torch.optim.AdamW(ours.parameters(), lr=1e-2),
        loss=lambda model, both: pulled(model(both[0]), both[1]),
        loss_is="share",
        policy=policy,
    )
    for _ in range(3):
        steps.zero_grad()
        for part, gradient in zip(parts(3), cached(hand, 3)[1], strict=True):
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                loss = pulled(hand(part), gradient)
            loss.backward()
        steps.step()
        assert update(list(zip(parts(3), cached(ours, 3)[1], strict=True))).completed
        assert same(weights(hand), weights(ours))
