import copy
import tempfile
from pathlib import Path

import torch
from torch import nn

WINDOW = 4
SAVE_EVERY = 8
root = Path(tempfile.mkdtemp())


def build():
    torch.manual_seed(36)
    model = nn.Sequential(nn.Linear(6, 18), nn.Tanh(), nn.Linear(18, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.2)


def micro(i):
    g = torch.Generator().manual_seed(1000 + i)
    x = torch.randn(8, 6, generator=g)
    return x, x[:, :2].cos()


def loop(model, opt, start, stop):
    for i in range(start, stop):
        x, y = micro(i)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(x).float(), y)
        (loss / WINDOW).backward()
        if (i + 1) % WINDOW == 0:
            opt.step()
            opt.zero_grad()
        if (i + 1) % SAVE_EVERY == 0:
            torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "next": i + 1}, root / "ckpt.pt")


straight = build()
loop(*straight, 0, 24)
reference = copy.deepcopy(straight[0].state_dict())

loop(*build(), 0, 19)  # preempted
ck = torch.load(root / "ckpt.pt")
model, opt = build()
model.load_state_dict(ck["model"])
opt.load_state_dict(ck["opt"])
loop(model, opt, ck["next"], 24)
diff = max((reference[k] - v).abs().max().item() for k, v in model.state_dict().items())
for f in root.iterdir():
    f.unlink()
root.rmdir()
print(f"RESULT resumed_from={ck['next']} difference_to_uninterrupted={diff:.3e}")
