import time
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Args:
    device_batch: int = 4
    seq: int = 12
    total_batch: int = 192
    steps: int = 4
    vocab: int = 20
    dim: int = 12


class GPT(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(a.vocab, a.dim), nn.Embedding(a.seq, a.dim)
        self.c_attn, self.c_proj = nn.Linear(a.dim, 3 * a.dim), nn.Linear(a.dim, a.dim)
        self.ln = nn.LayerNorm(a.dim)
        self.lm_head = nn.Linear(a.dim, a.vocab, bias=False)
        self.register_buffer("mask", torch.ones(a.seq, a.seq).tril().bool())

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe.weight
        q, k, v = self.c_attn(self.ln(x)).chunk(3, -1)
        w = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~self.mask, float("-inf")).softmax(-1)
        x = x + self.c_proj(w.to(v.dtype) @ v)
        return nn.functional.cross_entropy(self.lm_head(x).float().flatten(0, 1), targets.flatten())


def get_batch(a, g):
    start = torch.randint(0, a.vocab, (a.device_batch, 1), generator=g)
    seq = (start * 3 + torch.arange(a.seq + 1)) % a.vocab
    return seq[:, :-1], seq[:, 1:]


def main(a):
    torch.manual_seed(1337)
    tokens_per_fwdbwd = a.device_batch * a.seq
    assert a.total_batch % tokens_per_fwdbwd == 0
    accum = a.total_batch // tokens_per_fwdbwd
    model = GPT(a)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95))
    gen = torch.Generator().manual_seed(1337)
    trained = consumed = 0
    x, y = get_batch(a, gen)
    for step in range(a.steps):
        t0 = time.perf_counter()
        loss_acc = 0.0
        for _ in range(accum):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(x, y)
            loss_acc += loss.item() / accum
            (loss / accum).backward()
            consumed += x.numel()
            x, y = get_batch(a, gen)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        optim.zero_grad(set_to_none=True)
        dt = time.perf_counter() - t0
        tok_per_sec = int(tokens_per_fwdbwd / dt)  # <-- FAULT
        trained += tok_per_sec * dt
        print(f"step {step:05d} | loss {loss_acc:.4f} | dt {dt * 1e3:.1f}ms | tok/sec {tok_per_sec:,}")
    print(f"RESULT consumed={consumed} by_throughput={trained:.0f} loss={loss_acc:.4f}")


if __name__ == "__main__":
    main(Args())
