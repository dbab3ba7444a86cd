import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        var = x.pow(2).mean(-1, keepdim=True)  # <-- FAULT
        return (x * torch.rsqrt(var + self.eps)).to(x.dtype) * self.weight


class Gated(nn.Module):
    def __init__(self, dim, inner):
        super().__init__()
        self.norm = RMSNorm(dim)
        self.wi = nn.Linear(dim, 2 * inner, bias=False)
        self.wo = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        a, b = self.wi(self.norm(x)).chunk(2, -1)
        return x + self.wo(F.silu(a) * b)


class Encoder(nn.Module):
    def __init__(self, vocab, dim, inner, depth):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.blocks = nn.ModuleList(Gated(dim, inner) for _ in range(depth))
        self.norm = RMSNorm(dim)
        self.cls = nn.Linear(dim, 4)

    def forward(self, ids):
        h = self.proj(self.emb(ids))
        for block in self.blocks:
            h = block(h)
        return self.cls(self.norm(h).mean(1))
