import os
import tempfile

import torch
from torch import nn


def build():
    torch.manual_seed(29)
    net = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 1))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.StepLR(opt, 10, 0.5)
    return {"net": net, "opt": opt, "sched": sched, "amp": torch.amp.GradScaler("cpu", init_scale=2.0**20)}


def run(k, n, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        x = torch.randn(16, 5, generator=g)
        k["opt"].zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(k["net"](x), x[:, :1] * x[:, 1:2])
        k["amp"].scale(loss).backward()
        old = k["amp"].get_scale()
        k["amp"].step(k["opt"])
        k["amp"].update()
        if k["amp"].get_scale() >= old:
            k["sched"].step()
    return loss.item()


with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "last.ckpt")
    a = build()
    run(a, 15, seed=1)
    torch.save({name: thing.state_dict() for name, thing in a.items()}, path)
    straight = run(a, 10, seed=2)
    b = build()
    for name, state in torch.load(path).items():
        b[name].load_state_dict(state)
    resumed = run(b, 10, seed=2)
print(f"RESULT straight={straight:.6f} resumed={resumed:.6f}")
