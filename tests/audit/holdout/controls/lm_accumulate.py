import contextlib
import math
import os
import tempfile
from collections import Counter
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Conf:
    vocab: int = 22
    dim: int = 16
    heads: int = 2
    ctx: int = 8
    micro: int = 3
    accum: int = 3
    updates: int = 8
    peak: float = 6e-3
    warmup: int = 3
    clip: float = 1.0
    init_scale: float = 2.0**19
    seed: int = 0


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = c.heads
        self.qkv = nn.Linear(c.dim, 3 * c.dim, bias=False)
        self.out = nn.Linear(c.dim, c.dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok, self.pos = nn.Embedding(c.vocab, c.dim), nn.Embedding(c.ctx, c.dim)
        self.ln1, self.attn = nn.LayerNorm(c.dim), Attention(c)
        self.ln2, self.mlp = nn.LayerNorm(c.dim), nn.Sequential(nn.Linear(c.dim, 32), nn.GELU(), nn.Linear(32, c.dim))
        self.head = nn.Linear(c.dim, c.vocab, bias=False)
        self.head.weight = self.tok.weight
        nn.init.normal_(self.tok.weight, std=0.3)

    def forward(self, ids):
        h = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        h = h + self.attn(self.ln1(h))
        h = h + self.mlp(self.ln2(h))
        return self.head(h)


class Corpus:
    def __init__(self, c):
        self.c = c
        self.cursor = 0

    def state_dict(self):
        return {"cursor": self.cursor}

    def load_state_dict(self, s):
        self.cursor = s["cursor"]

    def batch(self):
        g = torch.Generator().manual_seed(10_000 + self.cursor)
        self.cursor += 1
        start = torch.randint(0, self.c.vocab, (self.c.micro, 1), generator=g)
        seq = (start + 3 * torch.arange(self.c.ctx + 1)) % self.c.vocab
        x, y = seq[:, :-1], seq[:, 1:].clone()
        length = torch.randint(2, self.c.ctx + 1, (self.c.micro, 1), generator=g)
        y[torch.arange(self.c.ctx) >= length] = -100
        return x, y


class Session:
    def __init__(self, c):
        torch.manual_seed(c.seed)
        self.c = c
        self.model = GPT(c)
        decay, rest = [], []
        for n, p in self.model.named_parameters():
            (decay if p.ndim == 2 and "pos" not in n else rest).append(p)
        self.optim = torch.optim.AdamW([dict(params=decay, weight_decay=0.1), dict(params=rest, weight_decay=0.0)], lr=c.peak)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.optim, self.factor)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=c.init_scale, growth_interval=50)
        self.data = Corpus(c)
        self.counts = Counter()

    def factor(self, k):
        if k < self.c.warmup:
            return (k + 1) / (self.c.warmup + 1)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (k - self.c.warmup) / 20)))

    def parts(self):
        return {k: getattr(self, k) for k in ("model", "optim", "sched", "scaler", "data")}

    def save(self, path):
        torch.save({"counts": dict(self.counts), **{k: v.state_dict() for k, v in self.parts().items()}}, path)

    def resume(self, path):
        disk = torch.load(path)
        for k, v in self.parts().items():
            v.load_state_dict(disk[k])
        self.counts = Counter(disk["counts"])
        return self

    def attempt(self):
        window = [self.data.batch() for _ in range(self.c.accum)]
        scored = sum(int((y >= 0).sum()) for _, y in window)
        nll = 0.0
        for x, y in window:
            with torch.autocast("cpu", dtype=torch.float16):
                logits = self.model(x)
            part = F.cross_entropy(logits.flatten(0, 1).float(), y.flatten(), reduction="sum") / scored
            self.scaler.scale(part).backward()
            nll += part.item()
        self.scaler.unscale_(self.optim)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.c.clip)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optim)
        self.scaler.update()
        self.optim.zero_grad(set_to_none=True)
        self.counts["attempts"] += 1
        if self.scaler.get_scale() < scale:
            self.counts["skipped"] += 1
            return None
        self.sched.step()
        self.counts["updates"] += 1
        self.counts["tokens"] += scored
        return nll, norm.item()

    def run(self, until):
        last = None
        while self.counts["updates"] < until:
            last = self.attempt() or last
        return last


def main():
    c = Conf()
    with tempfile.TemporaryDirectory() as d, contextlib.suppress(KeyboardInterrupt):
        one = Session(c)
        one.run(c.updates // 2)
        path = os.path.join(d, "mid.pt")
        one.save(path)
        a = one.run(c.updates)
        b = Session(replace(c, seed=99)).resume(path)
        r = b.run(c.updates)
    print(f"RESULT nll={a[0]:.5f} nll_resumed={r[0]:.5f} norm={a[1]:.4f} {dict(b.counts)} ticks={b.sched.last_epoch}")


main()
