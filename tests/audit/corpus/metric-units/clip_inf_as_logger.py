import argparse

import torch
from torch import nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=16)
    p.add_argument("--log-interval", type=int, default=4)
    p.add_argument("--lr", type=float, default=0.1)
    return p.parse_args()


def main(args):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=6)
    logged = []
    for it in range(args.iters):
        x = torch.randn(32, 8)
        y = x[:, :3].argmax(1)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        if it % args.log_interval == 0:
            total_norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=float("inf"))  # <-- FAULT
            logged.append(round(total_norm.item(), 4))
            print(f"iter {it} loss {loss.item():.4f} grad_norm {total_norm.item():.4f}")
        scaler.step(optimizer)
        scaler.update()
    return logged


print("RESULT grad_norms", *main(parse()))
