"""What models put out, and the losses that people make of it."""

from __future__ import annotations

import torch
from torch import Tensor

EXAMPLES, TOKENS, CLASSES = 4, 6, 5
LENGTHS = torch.tensor([6, 3, 5, 2])
SCORED = int(LENGTHS.sum())
MASK = torch.arange(TOKENS) < LENGTHS[:, None]


def put_out(*shape: int) -> Tensor:
    """What a layer puts out."""
    weight = torch.randn(3, shape[-1], requires_grad=True)
    return torch.randn(*shape[:-1], 3) @ weight + torch.zeros(shape[-1], requires_grad=True)


def labels(ignored: int = -100) -> Tensor:
    """Targets of EXAMPLES sequences of LENGTHS tokens, padded with `ignored`."""
    return torch.where(MASK, torch.randint(0, CLASSES, (EXAMPLES, TOKENS)), ignored)


def token_losses() -> Tensor:
    """The negative log-probability of each target, by the fused loss."""
    logits = put_out(EXAMPLES, TOKENS, CLASSES)
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels(0), reduction="none")


def picked_losses() -> Tensor:
    """The same, picked by hand."""
    log_p = put_out(EXAMPLES, TOKENS, CLASSES).log_softmax(-1)
    return -log_p.gather(-1, labels(0)[..., None]).squeeze(-1)
