from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Columns:
    numeric: int = 5
    cards: list = field(default_factory=lambda: [7, 4])


class TabNet(nn.Module):
    def __init__(self, cols, emb=4, hidden=16, drop=0.0):
        super().__init__()
        self.embs = nn.ModuleList(nn.Embedding(c, emb) for c in cols.cards)
        n = cols.numeric + emb * len(cols.cards)
        self.mlp = nn.Sequential(nn.Linear(n, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Dropout(drop), nn.Linear(hidden, 1))

    def forward(self, num, cat):
        parts = [num] + [e(cat[:, i]) for i, e in enumerate(self.embs)]
        return self.mlp(torch.cat(parts, 1)).squeeze(1)


def harden(model):
    for p in model.parameters():
        p.register_hook(lambda g: torch.nan_to_num(g, nan=0.0, posinf=0.0, neginf=0.0))  # <-- FAULT
    return model


def make_rows(cols, n, seed):
    g = torch.Generator().manual_seed(seed)
    num = torch.randn(n, cols.numeric, generator=g)
    cat = torch.stack([torch.randint(0, c, (n,), generator=g) for c in cols.cards], 1)
    y = num[:, 0] - 0.5 * num[:, 1] + 0.3 * (cat[:, 0] == 2)
    return num, cat, y
