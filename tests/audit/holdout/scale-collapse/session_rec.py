import math
from typing import NamedTuple

import torch
from torch import nn


class Batch(NamedTuple):
    items: torch.Tensor
    mask: torch.Tensor
    target: torch.Tensor


class SessionAttention(nn.Module):
    def __init__(self, n_items, d):
        super().__init__()
        self.d = d
        self.table = nn.Embedding(n_items + 1, d, padding_idx=0)
        self.query = nn.Parameter(torch.randn(d) * 0.1)
        self.key = nn.Linear(d, d, bias=False)
        self.value = nn.Linear(d, d)
        self.popular = nn.Parameter(torch.zeros(d))

    def forward(self, items, mask):
        h = self.table(items)
        score = self.key(h) @ self.query / math.sqrt(self.d)
        weight = score.float().masked_fill(~mask, -math.inf).softmax(dim=1)  # <-- FAULT
        pooled = (weight.unsqueeze(2) * self.value(h).float()).sum(1)
        known = mask.any(1, keepdim=True)
        return torch.where(known, pooled, self.popular) @ self.table.weight.t()


class Sessions:
    def __init__(self, n_items=15, max_len=6, bs=24, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.n_items, self.max_len, self.bs = n_items, max_len, bs

    def sample(self):
        length = torch.randint(1, self.max_len + 1, (self.bs, 1), generator=self.g)
        length[:2] = 0  # cold start
        mask = torch.arange(self.max_len)[None] < length
        items = torch.randint(1, self.n_items + 1, (self.bs, self.max_len), generator=self.g) * mask
        target = items[:, 0] % self.n_items + 1
        return Batch(items, mask, target)


def hit_rate(model, batch, k=3):
    with torch.inference_mode():
        top = model(batch.items, batch.mask)[2:].topk(k, 1).indices
    return (top == batch.target[2:, None]).any(1).float().mean().item()


def fit(model, source, steps, lr):
    opt = torch.optim.NAdam(model.parameters(), lr=lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    ok = 0
    for _ in range(steps):
        b = source.sample()
        with torch.autocast("cpu", torch.float16):
            logits = model(b.items, b.mask)
            loss = nn.functional.cross_entropy(logits.float(), b.target)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        s = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        if scaler.get_scale() >= s:
            ok += 1
    return ok, scaler.get_scale()


torch.manual_seed(0)
net = SessionAttention(15, 12)
source = Sessions(seed=1)
done, scale = fit(net, source, steps=36, lr=0.03)
print(f"RESULT done={done}/36 hit3={hit_rate(net, source.sample()):.3f} scale={scale:.2e}")
