import contextlib
import random

import torch
from torch import nn


@contextlib.contextmanager
def default_dtype(dtype):
    old = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(old)


class GatedMixer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.gate = nn.Parameter(torch.full((heads, dim // heads), 1.0))
        self.norm = nn.LayerNorm(dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        h = self.norm(x).view(b, t, self.heads, d // self.heads)
        return (h * self.gate).reshape(b, t, d)


class Stack(nn.Module):
    def __init__(self, dim=32, heads=4, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(GatedMixer(dim, heads) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


def build():
    with default_dtype(torch.bfloat16):
        return Stack()  # <-- FAULT


def batches(n, rng):
    for _ in range(n):
        g = torch.Generator().manual_seed(rng.randrange(1 << 30))
        x = torch.randn(4, 6, 32, generator=g)
        yield x, x * 0.25


def main():
    torch.manual_seed(0)
    rng = random.Random(7)
    model = build()
    ref = {n: p.detach().clone() for n, p in model.named_parameters()}
    opt = torch.optim.Adam(model.parameters(), lr=5e-4, betas=(0.9, 0.98))
    sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.5, total_iters=40)
    losses = []
    for x, y in batches(40, rng):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(x.to(next(model.parameters()).dtype))
        loss = nn.functional.mse_loss(out.float(), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        sched.step()
        losses.append(loss.item())
    moved = sum(int((p.detach() != ref[n]).sum()) for n, p in model.named_parameters())
    total = sum(p.numel() for p in model.parameters())
    print(f"RESULT moved={moved}/{total} loss_first={losses[0]:.4f} loss_last={losses[-1]:.4f}")


main()
