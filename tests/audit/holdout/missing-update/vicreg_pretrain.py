import math
import time

import torch
import torch.nn.functional as F
from torch import nn

CFG = {
    "epochs": 2,
    "iters": 6,
    "bs": 16,
    "dim": 12,
    "proj": 16,
    "base_lr": 0.05,
    "warmup": 4,
    "sim": 25.0,
    "std": 25.0,
    "cov": 1.0,
}


def off_diagonal(m):
    n = m.shape[0]
    return m.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten()


class Encoder(nn.Module):
    def __init__(self, dim, proj):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(dim, 32), nn.LayerNorm(32), nn.ReLU())
        self.projector = nn.Sequential(nn.Linear(32, proj), nn.ReLU(), nn.Linear(proj, proj))

    def forward(self, x):
        return self.projector(self.trunk(x))


def vicreg(za, zb, cfg):
    za, zb = za.float(), zb.float()
    sim = F.mse_loss(za, zb)
    za, zb = za - za.mean(0), zb - zb.mean(0)
    std = sum(F.relu(1 - torch.sqrt(z.var(0) + 1e-4)).mean() for z in (za, zb)) / 2
    n, d = za.shape
    cov = sum(off_diagonal(z.T @ z / (n - 1)).pow(2).sum() / d for z in (za, zb))
    return cfg["sim"] * sim + cfg["std"] * std + cfg["cov"] * cov


def adjust_lr(opt, it, cfg):
    total = cfg["epochs"] * cfg["iters"]
    if it < cfg["warmup"]:
        lr = cfg["base_lr"] * (it + 1) / cfg["warmup"]
    else:
        lr = 0.5 * cfg["base_lr"] * (1 + math.cos(math.pi * (it - cfg["warmup"]) / (total - cfg["warmup"])))
    for g in opt.param_groups:
        g["lr"] = lr
    return lr


def augment(x, gen):
    return x + 0.1 * torch.randn(x.shape, generator=gen)


def main(cfg):
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(2)
    model = Encoder(cfg["dim"], cfg["proj"])
    opt = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9, weight_decay=1e-6)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    stats = {"updates": 0, "loss": float("nan")}
    start = time.time()
    for epoch in range(cfg["epochs"]):
        for it in range(cfg["iters"]):
            x = torch.randn(cfg["bs"], cfg["dim"], generator=gen)
            lr = adjust_lr(opt, stats["updates"], cfg)
            opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                za, zb = model(augment(x, gen)), model(augment(x, gen))
            loss = vicreg(za, zb, cfg)
            scaler.scale(loss).backward()
            try:
                scaler.step(opt)  # <-- FAULT
            except RuntimeError as err:
                print(f"RESULT updates={stats['updates']} loss={stats['loss']:.3f} stopped={type(err).__name__}", flush=True)
                raise
            stats["updates"] += 1
            stats["loss"] = loss.item()
            if it % 3 == 0:
                print(f"{epoch}:{it} loss {loss.item():.3f} lr {lr:.4f} {int(time.time() - start)}s")
        scaler.update()
    print(f"RESULT updates={stats['updates']} loss={stats['loss']:.3f} stopped=no")


if __name__ == "__main__":
    main(CFG)
