import argparse
import os
import tempfile

import torch
from strict_clip_lib import build_optimizer, clip_gradients
from torch import nn


class TabTransformer(nn.Module):
    def __init__(self, cards=(5, 7, 3), d=8):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(c, d) for c in cards)
        self.attn = nn.MultiheadAttention(d, 2, batch_first=True)
        self.head = nn.Linear(d * len(cards) + 2, 1)

    def forward(self, cat, num):
        t = torch.stack([e(cat[:, i]) for i, e in enumerate(self.emb)], 1)
        t = t + self.attn(t, t, t, need_weights=False)[0]
        return self.head(torch.cat([t.flatten(1), num], 1)).squeeze(-1)


def make_rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    cat = torch.stack([torch.randint(0, c, (n,), generator=g) for c in (5, 7, 3)], 1)
    num = torch.randn(n, 2, generator=g)
    return cat, num, 40 * num[:, 0] + 10.0 * (cat[:, 0] == 2)


def save(path, model, opt, scaler, step):
    torch.save({"m": model.state_dict(), "o": opt.state_dict(), "s": scaler.state_dict(), "step": step}, path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=16)
    p.add_argument("--clip", type=float, default=5.0)
    p.add_argument("--opt", default="adamw")
    a = p.parse_args()
    torch.manual_seed(6)
    model = TabTransformer()
    opt = build_optimizer(a.opt, model, 0.05)
    scaler = torch.amp.GradScaler("cpu")
    done = 0
    with tempfile.TemporaryDirectory() as tmp:
        try:
            for step in range(a.steps):
                cat, num, y = make_rows(32, step)
                opt.zero_grad()
                with torch.autocast("cpu", dtype=torch.float16):
                    loss = nn.functional.mse_loss(model(cat, num), y)
                scaler.scale(loss).backward()
                scaler.unscale_(opt)
                clip_gradients(model, a.clip)
                scaler.step(opt)
                scaler.update()
                done += 1
                if done % 8 == 0:
                    save(os.path.join(tmp, f"step{done}.pt"), model, opt, scaler, done)
        finally:
            print(f"RESULT attempts={done} checkpoints={len(os.listdir(tmp))} scale={scaler.get_scale():.0f}", flush=True)


if __name__ == "__main__":
    main()
