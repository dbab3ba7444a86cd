"""Models of many kinds train bit for bit as by hand, and a skip leaves each as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import truestep
from tests.engine.loops import Batch, by_hand, everything, same, weights

Kind = Callable[[], nn.Module]


def images(n: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 3, 6, 6, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def rows(n: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def series(n: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 5, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def tokens(n: int, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 7, (n, 5), generator=generator), torch.randint(0, 3, (n,), generator=generator)


class Last(nn.Module):
    """A head on the last output of a recurrent layer."""

    def __init__(self, recurrent: nn.Module, width: int = 6) -> None:
        super().__init__()
        self.recurrent, self.head = recurrent, nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.recurrent(x)[0][:, -1])


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(4, 2, dropout=0.1, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))


class Pooled(nn.Module):
    """The mean of embeddings under a head; an embedding of index 0 never gets a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4, padding_idx=0), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embedding(x).mean(1))


class Tied(nn.Module):
    """One weight as embedding and as head, three of whose seven words are classes."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embedding(x).mean(1))[:, :3]


class Odd(nn.Module):
    """Parameters of unusual shapes: a scalar, none of its elements there, transposed, a slice with gaps, never used."""

    def __init__(self) -> None:
        super().__init__()
        self.scalar = nn.Parameter(torch.tensor(0.5))
        self.empty = nn.Parameter(torch.zeros(0, 3))
        self.transposed = nn.Parameter(torch.randn(3, 4).t())
        self.gaps = nn.Parameter(torch.randn(3, 2)[:, 0])
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.transposed + self.gaps) * self.scalar + self.empty.sum()


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        hidden[:, :2].mul_(2.0)
        return self.last(F.leaky_relu_(hidden))


class Recorded(nn.Module):
    """Keeps what it saw, as models do that are looked into later."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.seen = nn.Linear(4, 3), None

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.layer(x)
        return self.seen


def hooked() -> nn.Module:
    """Hooks on a module's input, output and gradient that change the numbers."""
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2.0,))
    model[1].register_forward_hook(lambda module, args, output: output + 1.0)
    model[1].register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 0.5,))
    return model


def tiny() -> nn.Module:
    """Hundreds of parameters of a few elements each."""
    return nn.Sequential(*[nn.Linear(4, 4) for _ in range(100)], nn.Linear(4, 3))


MODELS: dict[str, tuple[Kind, Callable[[int, int], Batch]]] = {
    "rnn": (lambda: Last(nn.RNN(4, 6, batch_first=True)), series),
    "lstm": (lambda: Last(nn.LSTM(4, 6, num_layers=2, dropout=0.2, batch_first=True)), series),
    "bidirectional gru": (lambda: Last(nn.GRU(4, 3, bidirectional=True, batch_first=True)), series),
    "attention": (Attending, series),
    "transformer layer": (
        lambda: nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), nn.Flatten(), nn.Linear(20, 3)),
        series,
    ),
    "padded embedding": (Pooled, tokens),
    "embedding bag": (lambda: nn.Sequential(nn.EmbeddingBag(7, 4), nn.Linear(4, 3)), tokens),
    "tied": (Tied, tokens),
    "batch norm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 3)), images),
    "group and instance norm": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3),
            nn.GroupNorm(2, 4),
            nn.InstanceNorm2d(4, affine=True, track_running_stats=True),
            nn.Flatten(),
            nn.Linear(64, 3),
        ),
        images,
    ),
    "channels last": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).to(
            memory_format=torch.channels_last
        ),
        images,
    ),
    "weight norm": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 6)), nn.Tanh(), nn.Linear(6, 3)),
        rows,
    ),
    "spectral norm": (
        lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(4, 6)), nn.Tanh(), nn.Linear(6, 3)),
        rows,
    ),
    "orthogonal": (
        lambda: nn.Sequential(nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 3)),
        rows,
    ),
    "odd shapes": (Odd, rows),
    "in place": (InPlace, rows),
    "hooks": (hooked, rows),
    "keeps its output": (Recorded, rows),
    "many parameters": (tiny, rows),
    "dropout": (lambda: nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3)), rows),
}


def cross_entropy(model: nn.Module, data: Batch) -> Tensor:
    return F.cross_entropy(model(data[0]).float(), data[1])


def built(kind: Kind) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = kind()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


@pytest.mark.parametrize("policy", ["fp32", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_any_kind_trains_bit_for_bit_as_by_hand(name: str, policy: str) -> None:
    kind, data = MODELS[name]
    (hand, steps), (ours, our_steps) = built(kind), built(kind)
    update = truestep.Update(ours, our_steps, loss=cross_entropy, policy=policy)
    windows = [[data(3, seed), data(5, seed + 10)] for seed in range(3)]
    torch.manual_seed(1)
    for window in windows:
        by_hand(hand, steps, window, cross_entropy, dtype=torch.bfloat16 if policy == "bf16" else None)
    torch.manual_seed(1)
    assert all(update(window).completed for window in windows)
    assert same(weights(hand), weights(ours))
    assert same([b.detach() for b in hand.buffers()], [b.detach() for b in ours.buffers()])


NARROW = [name for name in MODELS if name not in ("spectral norm", "orthogonal")]
"""Torch computes no spectral norm of bfloat16 weights, and its matrix exponential's bfloat16 gradient is NaN at times."""


def kept_in_float32(model: nn.Module) -> set[int]:
    """The parameters of normalizations, and those that weights are computed from."""
    kinds = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.utils.parametrize.ParametrizationList)
    return {id(p) for module in model.modules() if isinstance(module, kinds) for p in module.parameters(recurse=False)}


def step_masters_by_hand(model: nn.Module, masters: list[nn.Parameter], optimizer: Any, window: list[Batch]) -> None:
    """Gradients in the weights' format, added in float32; a step of float32 masters, which the weights follow."""
    optimizer.zero_grad()
    total = sum(len(data[0]) for data in window)
    for data in window:
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = cross_entropy(model, data)
        (loss.float() * (len(data[0]) / total)).backward()
        for p, master in zip(model.parameters(), masters, strict=True):
            if p.grad is not None:
                master.grad = p.grad.float() if master.grad is None else master.grad + p.grad.float()
    optimizer.step()
    with torch.no_grad():
        for p, master in zip(model.parameters(), masters, strict=True):
            p.copy_(master)


@pytest.mark.parametrize("name", NARROW)
def test_a_model_of_any_kind_trains_with_float32_masters_bit_for_bit_as_by_hand(name: str) -> None:
    kind, data = MODELS[name]
    hand, ours = built(kind)[0], built(kind)[0]
    update = truestep.Update(ours, lambda params: torch.optim.AdamW(params, lr=1e-2), loss=cross_entropy, policy="bf16-master")
    masters = [nn.Parameter(p.detach().clone()) for p in hand.parameters()]
    kept = kept_in_float32(hand)
    for p in hand.parameters():
        p.data = p.data if id(p) in kept else p.data.to(torch.bfloat16)
    steps = torch.optim.AdamW(masters, lr=1e-2)
    windows = [[data(3, seed), data(5, seed + 10)] for seed in range(3)]
    torch.manual_seed(1)
    for window in windows:
        step_masters_by_hand(hand, masters, steps, window)
    torch.manual_seed(1)
    assert all(update(window).completed for window in windows)
    assert same(weights(hand), weights(ours))
    assert same([master.detach() for master in masters], list(update.weights().values()))


@pytest.mark.parametrize("policy", ["bf16-master", "bf16-pure"])
@pytest.mark.parametrize("name", NARROW)
def test_a_skip_leaves_narrow_weights_of_any_kind_as_they_were(name: str, policy: str) -> None:
    kind, data = MODELS[name]
    update = truestep.Update(built(kind)[0], torch.optim.AdamW, loss=times_label_three, check_weight=False, policy=policy)
    for _ in range(2):
        before = [*everything(update), *(w.clone() for w in update.weights().values())]
        assert update([data(3, 7), poisoned(data(5, 8))]).skip.reason is truestep.Reason.INPUT
        assert same(before, [*everything(update), *update.weights().values()])
        assert update([data(3, 9)]).completed


@pytest.mark.parametrize("completed_before", [0, 1])
@pytest.mark.parametrize("name", MODELS)
def test_a_skip_leaves_a_model_of_any_kind_as_it_was(name: str, completed_before: int) -> None:
    kind, data = MODELS[name]
    model, steps = built(kind)
    update = truestep.Update(model, steps, loss=times_label_three, check_weight=False)
    for seed in range(completed_before):
        assert update([data(3, seed)]).completed
    before = everything(update)
    outcome = update([data(3, 7), poisoned(data(5, 8))])
    assert outcome.skip is not None
    assert outcome.skip.reason is truestep.Reason.INPUT
    assert same(before, everything(update))
    assert all(p.grad is None for p in model.parameters())


def times_label_three(model: nn.Module, data: Any) -> Tensor:
    """Cross-entropy times a third entry of the microbatch, which can poison models of tokens too."""
    loss = cross_entropy(model, data)
    return loss * data[2] if len(data) > 2 else loss


def poisoned(data: Batch) -> tuple[Tensor, Tensor, Tensor]:
    return *data, torch.tensor(float("nan"))
