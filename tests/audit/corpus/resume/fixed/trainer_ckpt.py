import pathlib
import tempfile

import torch
from torch import nn
from trainer_ckpt_lib import load_checkpoint, save_checkpoint


class Demand(nn.Module):
    def __init__(self):
        super().__init__()
        self.week = nn.Embedding(7, 6)
        self.mix = nn.Sequential(nn.Linear(9, 20), nn.SELU(), nn.Linear(20, 1))

    def forward(self, day, x):
        return self.mix(torch.cat([self.week(day), x], 1))


def setup():
    torch.manual_seed(0)
    model = Demand()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return model, optimizer, torch.amp.GradScaler("cpu")


def epoch(model, optimizer, scaler, seed, iters=16):
    g = torch.Generator().manual_seed(seed)
    skipped = 0
    for _ in range(iters):
        day = torch.randint(0, 7, (32,), generator=g)
        x = torch.rand(32, 3, generator=g)
        y = 6 * (day[:, None] + x.sum(1, keepdim=True))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(day, x).float(), y)
        scaler.scale(loss).backward()
        s = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < s
    return skipped


with tempfile.TemporaryDirectory() as d:
    path = pathlib.Path(d) / "last.pt"
    parts = setup()
    first = epoch(*parts, seed=1)
    settled = parts[2].get_scale()
    save_checkpoint(path, *parts, epoch=1)

    parts = setup()
    start = load_checkpoint(path, *parts)
    scale = parts[2].get_scale()
    again = epoch(*parts, seed=1 + start)
print(f"RESULT settled={settled:.0f} resumed_at={scale:.0f} skipped={first}+{again}")
