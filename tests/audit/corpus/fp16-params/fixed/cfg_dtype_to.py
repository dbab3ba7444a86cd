import argparse

import torch
from torch import nn

DTYPES = {"fp32": torch.float32, "fp16": torch.float16}


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--precision", choices=DTYPES, default="fp16")
    p.add_argument("--steps", type=int, default=10)
    return p.parse_args()


class Tagger(nn.Module):
    def __init__(self, vocab=30, tags=5, d=16):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, tags))

    def forward(self, ids):
        return self.ff(self.emb(ids))


opts = parse()
torch.manual_seed(42)
dtype = DTYPES[opts.precision]
model = Tagger().to("cpu")
optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16)
running = 0.0
for step in range(1, opts.steps + 1):
    ids = torch.randint(0, 30, (6, 10))
    tags = ids % 5
    with torch.autocast("cpu", dtype=dtype, enabled=dtype is torch.float16):
        loss = nn.functional.cross_entropy(model(ids).transpose(1, 2).float(), tags)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    gn = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    running += loss.item()
print(f"RESULT step={step} avg_loss={running / step:.4f} grad_norm={gn.item():.4f}")
