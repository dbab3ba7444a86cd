"""Sparse gradients: judged, unscaled and clipped by the values that their rows add up to, as the same gradient when dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import truestep
from tests.engine.loops import everything, optimizer_state, same, weights
from truestep.errors import PolicyError

WORDS, WIDTH = 9, 4
Batch = tuple[Tensor, Tensor]


def embedding(*, sparse: bool) -> nn.Module:
    torch.manual_seed(0)
    return nn.Embedding(WORDS, WIDTH, sparse=sparse)


def words(n: int, seed: int) -> Batch:
    """Words, most of them more than once, and small whole numbers that their vectors are multiplied by."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 5, (n, 2), generator=generator), torch.randint(-3, 4, (n, 2, WIDTH), generator=generator).float()


def linear(model: nn.Module, data: Batch) -> Tensor:
    """Linear in the vectors: its gradient is made of whole numbers over powers of two, so that no sum of it is rounded."""
    return (model(data[0]) * data[1]).sum() / 8.0


def linear_update(*, sparse: bool, lr: float = 0.125, **options: Any) -> truestep.Update:
    model = embedding(sparse=sparse)
    return truestep.Update(
        model,
        torch.optim.SGD(model.parameters(), lr=lr),
        loss=linear,
        loss_is="share",
        examples=lambda data: len(data[0]),
        **options,
    )


def windows() -> list[list[Batch]]:
    return [[words(4, seed), words(6, seed + 10), words(1, seed + 20)] for seed in range(4)]


@pytest.mark.parametrize("scale", [1.0, 2.0**16, 2.0**-3])
def test_a_sparse_gradient_is_the_dense_one(scale: float) -> None:
    sparse, dense = (linear_update(sparse=sparse, scale=truestep.LossScale.static(scale)) for sparse in (True, False))
    for window in windows():
        outcomes = [update(window) for update in (sparse, dense)]
        assert all(outcome.completed for outcome in outcomes)
        assert sparse.model.weight.grad.is_sparse
        assert torch.equal(sparse.model.weight.grad.to_dense(), dense.model.weight.grad)
        # Sums of the same squares in another order, float32 within a block: at most 20 of them, and one root.
        assert outcomes[0].grad_norm == pytest.approx(outcomes[1].grad_norm, rel=22 * 2.0**-24)
        assert same(weights(sparse.model), weights(dense.model))


@pytest.mark.parametrize("clip", [truestep.ClipNorm(0.25), truestep.ClipValue(0.25)])
def test_a_sparse_gradient_is_clipped_as_the_dense_one(clip: truestep.ClipNorm | truestep.ClipValue) -> None:
    sparse, dense = (linear_update(sparse=sparse, clip=clip, scale=truestep.LossScale.static(1024.0)) for sparse in (True, False))
    for window in windows():
        outcomes = [update(window) for update in (sparse, dense)]
        assert outcomes[0].grad_norm > outcomes[0].grad_norm_clipped
        assert outcomes[0].grad_norm_clipped == pytest.approx(outcomes[1].grad_norm_clipped, rel=22 * 2.0**-24)
        found, expected = sparse.model.weight.grad.to_dense(), dense.model.weight.grad
        # One factor for all: two norms that differ by the bound above, and a rounding each for their quotient and product.
        assert bool(((found - expected).abs() <= 26 * 2.0**-24 * expected.abs()).all())


def coalesced_by_hand(model: nn.Module, optimizer: Any, window: list[Any], loss: Callable[..., Tensor], total: float) -> None:
    """What a careful person writes whose optimizers are [sparse, dense] ones."""
    for each in optimizer:
        each.zero_grad()
    for data in window:
        (loss(model, data) * (len(data[0]) / total)).backward()
    for p in model.parameters():
        if p.grad is not None and p.grad.is_sparse:
            p.grad = p.grad.coalesce()
    for each in optimizer:
        each.step()


class Classified(nn.Module):
    """Words under a dense head."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        make = nn.EmbeddingBag if kind == "bag" else nn.Embedding
        self.embedding, self.head, self.kind = make(WORDS, WIDTH, sparse=kind != "dense"), nn.Linear(WIDTH, 3), kind

    def forward(self, x: Tensor) -> Tensor:
        found = self.embedding(x)
        return self.head(torch.tanh(found if self.kind == "bag" else found.mean(1)))


def classify(model: nn.Module, data: Any) -> Tensor:
    loss = F.cross_entropy(model(data[0]), data[1])
    return loss * data[2] if len(data) > 2 else loss


def labelled(n: int, seed: int, *more: float) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randint(0, 5, (n, 3), generator=generator),
        torch.randint(0, 3, (n,), generator=generator),
        *map(torch.tensor, more),
    )


SPARSE: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1),
    "sparse adam": lambda params: torch.optim.SparseAdam(params, lr=1e-2),
    "adagrad": lambda params: torch.optim.Adagrad(params, lr=1e-2),
}


def optimizers(model: Classified, name: str) -> list[torch.optim.Optimizer]:
    return [
        SPARSE[name](list(model.embedding.parameters())),
        torch.optim.AdamW(model.head.parameters(), lr=1e-2, fused=True),
    ]


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")  # torch's Adagrad makes sparse tensors of its own
@pytest.mark.parametrize("kind", ["embedding", "bag"])
@pytest.mark.parametrize("name", SPARSE)
def test_a_sparse_optimizer_beside_a_dense_one_steps_bit_for_bit_as_by_hand(kind: str, name: str) -> None:
    hand, ours = Classified(kind), Classified(kind)
    steps, our_steps = optimizers(hand, name), optimizers(ours, name)
    update = truestep.Update(ours, our_steps, loss=classify)
    for seed in range(4):
        window = [labelled(4, seed), labelled(2, seed + 10)]
        before = everything(update)
        assert not update([window[0], labelled(3, 30, float("nan"))]).completed
        assert same(before, everything(update))
        assert update(window).completed
        coalesced_by_hand(hand, steps, window, classify, 6)
        assert same(weights(hand), weights(ours))
        assert same(*([state for each in found for state in optimizer_state(each)] for found in (steps, our_steps)))


@pytest.mark.parametrize("sparse", [True, False])
def test_a_row_whose_parts_are_finite_and_whose_sum_is_not_is_skipped(sparse: bool) -> None:
    """As a dense gradient's is: both hold the sum."""
    update = linear_update(sparse=sparse)
    nn.init.zeros_(update.model.weight)  # so that the loss is finite
    before = everything(update)
    often = (torch.ones(16, 2, dtype=torch.long), torch.full((16, 2, WIDTH), 2.0**127))  # 32 gradients of 2^124
    outcome = update([often])
    assert outcome.skip.place == "weight"
    assert same(before, everything(update))


def test_rows_that_cancel_are_no_gradient_and_count_in_no_norm() -> None:
    update = linear_update(sparse=True)
    opposite = torch.stack([torch.ones(1, WIDTH), -torch.ones(1, WIDTH)], 1)
    assert update([(torch.tensor([[1, 1]]), opposite)]).grad_norm == 0.0


def test_an_overflow_in_the_sparse_gradient_alone_is_cured_by_a_smaller_scale() -> None:
    model = Classified("embedding")
    update = truestep.Update(
        model,
        optimizers(model, "sgd"),
        loss=classify,
        policy="fp16",
        scale=truestep.LossScale.dynamic(2.0**20, backoff=2.0**-10),
        check_weight=False,
    )
    before = everything(update)
    outcome = update([labelled(4, 0, 1.0), labelled(4, 1, 8.0)])
    assert outcome.skip.reason is truestep.Reason.BACKWARD
    assert outcome.next_loss_scale == 2.0**10
    assert same(before, everything(update))
    assert update([labelled(4, 0, 1.0), labelled(4, 1, 8.0)]).completed


def test_an_optimizer_that_takes_no_sparse_gradient_says_so_and_nothing_has_happened() -> None:
    model = Classified("embedding")
    update = truestep.Update(model, torch.optim.AdamW(model.parameters(), lr=1e-2), loss=classify)
    before = everything(update)
    with pytest.raises(RuntimeError, match="sparse gradients"):
        update([labelled(4, 0)])
    assert same(before, everything(update))
    assert update.counts.attempts == 0


def test_a_complex_parameter_is_refused_by_name_with_a_way_to_hold_it() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, dtype=torch.complex64))
    with pytest.raises(PolicyError, match=r"'1\.weight' is complex64") as caught:
        truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=lambda m, x: m(x).abs().mean())
    assert "view_as_real" in caught.value.hint


class Spectral(nn.Module):
    """A complex filter, held by its real view."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.filter, self.head = nn.Parameter(torch.randn(3, 2)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.fft.irfft(torch.fft.rfft(x.float()) * torch.view_as_complex(self.filter), n=4))


def test_a_complex_filter_by_its_real_view_trains_bit_for_bit_as_by_hand() -> None:
    hand, ours = Spectral(), Spectral()
    steps, our_steps = (torch.optim.AdamW(m.parameters(), lr=1e-2) for m in (hand, ours))
    update = truestep.Update(ours, our_steps, loss=classify)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        window = [(torch.randn(n, 4, generator=generator), torch.arange(n) % 3) for n in (4, 2)]
        assert update(window).completed
        coalesced_by_hand(hand, [steps], window, classify, 6)
    assert same(weights(hand), weights(ours))
