import argparse
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

p = argparse.ArgumentParser()
p.add_argument("--accum-steps", type=int, default=4)
p.add_argument("--clip", type=float, default=1.0)
p.add_argument("--epochs", type=int, default=2)
a = p.parse_args()

torch.manual_seed(15)
X = torch.randn(128, 10)
Y = torch.stack([X[:, 0] - X[:, 1], X[:, 2] * 0.5], 1)
dl = DataLoader(TensorDataset(X, Y), batch_size=8, shuffle=True, drop_last=True)
mlp = nn.Sequential(nn.Linear(10, 16), nn.LeakyReLU(0.1), nn.Linear(16, 2))
adam = torch.optim.SGD(mlp.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=32.0)

for ep in range(a.epochs):
    for i, (xb, yb) in enumerate(dl):
        last = (i + 1) % a.accum_steps == 0
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(mlp(xb), yb) / a.accum_steps
        scaler.scale(loss).backward()
        if last:
            scaler.unscale_(adam)
            nn.utils.clip_grad_norm_(mlp.parameters(), a.clip)
            scaler.step(adam)
            scaler.update()
            adam.zero_grad(set_to_none=True)

with torch.no_grad():
    print(f"RESULT fit={(mlp(X) - Y).pow(2).mean().item():.4g}")
