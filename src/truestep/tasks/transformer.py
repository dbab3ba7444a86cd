"""A causal transformer over bytes, one block deep: small enough to train on two cores in seconds."""

from __future__ import annotations

import torch
from torch import Tensor, nn

BYTES = 256


class ByteTransformer(nn.Module):
    """From bytes (examples, length) to logits of the byte that follows each (examples, length, 256).

    No output depends on an input to its right, so that padding at the end changes nothing before it. No batch statistics and
    no dropout: examples are independent.

    >>> ByteTransformer(width=8, heads=2)(torch.zeros(3, 5, dtype=torch.int64)).shape
    torch.Size([3, 5, 256])
    """

    def __init__(self, *, width: int, heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(BYTES, width)
        self.attention = Attention(width, heads=heads)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.head = nn.Linear(width, BYTES)
        nn.init.normal_(self.embedding.weight, std=0.1)

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits; each half of the block adds to what it is given."""
        x = self.embedding(inputs)
        x = x + self.attention(self.norms[0](x))
        x = x + self.contract(nn.functional.gelu(self.expand(self.norms[1](x))))
        logits: Tensor = self.head(self.norms[2](x))
        return logits


class Attention(nn.Module):
    """Causal attention that knows of places by distance alone: head h takes distance / 2^h from each score.

    Linear biases (Press, Smith and Lewis, "Train Short, Test Long", 2022) need no table of positions and find the byte just
    before within a few dozen updates, which learned positions take hundreds for.
    """

    def __init__(self, width: int, *, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """From (examples, length, width) to the same."""
        examples, length, width = x.shape
        queries, keys, values = self.project(x).view(examples, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = distance_bias(self.heads, length, x.device).to(queries.dtype)
        mixed = nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)
        joined: Tensor = self.join(mixed.transpose(1, 2).reshape(examples, length, width))
        return joined


def distance_bias(heads: int, length: int, device: torch.device) -> Tensor:
    """(heads, length, length): -(row - column) / 2^head at and left of the diagonal, -inf to its right.

    >>> distance_bias(2, 2, torch.device("cpu")).tolist()
    [[[-0.0, -inf], [-1.0, -0.0]], [[-0.0, -inf], [-0.5, -0.0]]]
    """
    place = torch.arange(length, device=device)
    distance = (place.unsqueeze(1) - place).float()
    slopes = 0.5 ** torch.arange(heads, device=device)
    return (-distance * slopes.view(-1, 1, 1)).masked_fill(distance < 0, -torch.inf)
