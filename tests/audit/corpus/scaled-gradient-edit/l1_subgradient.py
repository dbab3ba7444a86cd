from types import SimpleNamespace

import torch
from torch import nn

cfg = SimpleNamespace(lr=0.02, l1=0.3, n=40, seed=25, scale=2.0**13)
torch.manual_seed(cfg.seed)
true_w = torch.zeros(16)
true_w[:3] = torch.tensor([2.0, -1.5, 1.0])
reg = nn.Linear(16, 1)
optimizer = torch.optim.SGD([{"params": [reg.weight]}, {"params": [reg.bias], "lr": cfg.lr * 2}], lr=cfg.lr)
scaler = torch.amp.GradScaler("cpu", init_scale=cfg.scale)
for epoch in range(cfg.n):
    x = torch.randn(64, 16)
    y = x @ true_w[:, None]
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        mse = nn.functional.mse_loss(reg(x), y)
    scaler.scale(mse).backward()
    reg.weight.grad.add_(reg.weight.detach().sign(), alpha=cfg.l1)  # <-- FAULT
    scaler.step(optimizer)
    scaler.update()
off = reg.weight.detach()[0, 3:].abs().sum().item()
print(f"RESULT l1_of_noise_weights={off:.4f} l1_total={reg.weight.detach().abs().sum().item():.4f}")
