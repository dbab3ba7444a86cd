import json

import torch
from torch import nn

CONFIG = json.loads("""
{"model": {"d_in": 8, "d": 16}, "train": {"steps": 25, "batch": 48, "lr": 0.001, "eps": 1e-15},
 "amp": {"enabled": true, "dtype": "float16"}, "loss_weight": 1e-06}
""")


class Policy:
    def __init__(self, enabled, dtype):
        self.enabled = enabled
        self.dtype = getattr(torch, dtype)
        self.scaler = torch.amp.GradScaler("cpu", enabled=enabled and dtype == "fp16")  # <-- FAULT

    def __enter__(self):
        self._ctx = torch.autocast("cpu", dtype=self.dtype, enabled=self.enabled)
        return self._ctx.__enter__()

    def __exit__(self, *exc):
        return self._ctx.__exit__(*exc)

    def backward_and_step(self, loss, opt):
        opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.step(opt)
        self.scaler.update()


def build(m):
    return nn.Sequential(nn.Linear(m["d_in"], m["d"]), nn.SiLU(), nn.Linear(m["d"], m["d"]), nn.SiLU(), nn.Linear(m["d"], 1))


def main(c):
    torch.manual_seed(0)
    net, policy = build(c["model"]), Policy(**c["amp"])
    opt = torch.optim.Adam(net.parameters(), lr=c["train"]["lr"], eps=c["train"]["eps"])
    gen = torch.Generator().manual_seed(1)
    w = net[0].weight.detach().clone()
    raw = 0.0
    for _ in range(c["train"]["steps"]):
        x = torch.randn(c["train"]["batch"], c["model"]["d_in"], generator=gen)
        with policy:
            pred = net(x)
        err = (pred.float().squeeze(1) - x[:, 0].abs()).square().mean()
        policy.backward_and_step(c["loss_weight"] * err, opt)
        raw = err.item()
    moved = (net[0].weight - w).abs()
    print(f"RESULT error={raw:.4f} never_moved={int((moved == 0).sum())}/{moved.numel()} mean_move={moved.mean().item():.2e}")


main(CONFIG)
