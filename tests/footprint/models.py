"""Unlike models whose memory is asked for, each with a window of its own, and optimizers in their three passes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.profile import FULL
from truestep import Update

OPTIMIZERS = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.01, foreach=False),
    "sgd momentum foreach": lambda params: torch.optim.SGD(params, lr=0.01, momentum=0.9, foreach=True),
    "sgd fused": lambda params: torch.optim.SGD(params, lr=0.01, momentum=0.9, fused=True),
    "adamw": lambda params: torch.optim.AdamW(params, lr=1e-3, foreach=False),
    "adamw foreach": lambda params: torch.optim.AdamW(params, lr=1e-3, foreach=True),
    "adamw fused": lambda params: torch.optim.AdamW(params, lr=1e-3, fused=True),
}


class Embedding(nn.Module):
    """A large table and a small head."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(3000, 48), nn.Linear(48, 16)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.head(self.table(tokens).mean(1))
        return out


def convolutional() -> nn.Module:
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1)]
    return nn.Sequential(*layers, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def deep() -> nn.Module:
    return nn.Sequential(
        *(layer for _ in range(8 if FULL else 3) for layer in (nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU())), nn.Linear(64, 5)
    )


MODELS = {"embedding": Embedding, "convolutional": convolutional, "deep": deep}


def window_of(name: str, microbatches: int) -> list[tuple[Tensor, Tensor]]:
    """48 examples in all."""
    each = 48 // microbatches
    made = {
        "embedding": lambda: torch.randint(0, 3000, (each, 12)),
        "convolutional": lambda: torch.randn(each, 3, 16, 16),
        "deep": lambda: torch.randn(each, 64),
    }[name]
    return [(made(), torch.randint(0, 5, (each,))) for _ in range(microbatches)]


def loss(model: nn.Module, microbatch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(microbatch[0]).float(), microbatch[1])


def update_of(name: str, policy: str, optimizer: str = "adamw fused") -> Update[Any]:
    torch.manual_seed(0)
    return Update(MODELS[name](), OPTIMIZERS[optimizer], loss=loss, policy=policy)
