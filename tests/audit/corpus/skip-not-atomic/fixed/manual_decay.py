import argparse

import torch
from torch import nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--wd", type=float, default=0.5)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--steps", type=int, default=16)
    return p.parse_args([])


@torch.no_grad()
def decay_weights(module, lr, wd):
    for name, p in module.named_parameters():
        if name.endswith("weight"):
            p.mul_(1 - lr * wd)


def main(a):
    torch.manual_seed(91)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
    opt = torch.optim.SGD(net.parameters(), lr=a.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22)
    applied = 0
    for _ in range(a.steps):
        x = torch.randn(32, 16)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(net(x), x[:, :10].argmax(1))
        scaler.scale(loss).backward()
        s = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        ok = scaler.get_scale() >= s
        applied += ok
        if ok:
            decay_weights(net, a.lr, a.wd)
    print(f"RESULT applied={applied}/{a.steps} norm={net[0].weight.norm().item():.5f},{net[2].weight.norm().item():.5f}")


if __name__ == "__main__":
    main(parse())
