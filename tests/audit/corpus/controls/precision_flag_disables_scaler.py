import argparse

import torch
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--precision", choices=["fp16", "bf16", "fp32"], default="bf16")
ap.add_argument("--steps", type=int, default=15)
cfg = ap.parse_args()

torch.manual_seed(41)
dtype = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[cfg.precision]
net = nn.Sequential(nn.Linear(7, 14), nn.ReLU(), nn.Linear(14, 1))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.steps)
scaler = torch.amp.GradScaler("cpu", enabled=cfg.precision == "fp16")
for _ in range(cfg.steps):
    x = torch.randn(16, 7)
    with torch.autocast("cpu", dtype=dtype, enabled=cfg.precision != "fp32"):
        loss = nn.functional.mse_loss(net(x), x.sum(1, keepdim=True))
    opt.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    before = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    if scaler.get_scale() >= before:
        sched.step()
print(f"RESULT loss={loss.item():.4f} lr={sched.get_last_lr()[0]:.6f}")
