import argparse
import time

import torch
from torch import nn

cli = argparse.ArgumentParser()
cli.add_argument("--amp-dtype", default="bfloat16")
cli.add_argument("--iters", type=int, default=16)
a = cli.parse_args()
amp_dtype = getattr(torch, a.amp_dtype)

torch.manual_seed(0)
gru = nn.Sequential(nn.Embedding(40, 24), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 40))
opt = torch.optim.AdamW(gru.parameters(), lr=3e-3, betas=(0.9, 0.95))
scaler = torch.amp.GradScaler("cpu", enabled=amp_dtype is torch.float16)
t0 = time.perf_counter()
for it in range(a.iters):
    seq = torch.arange(17).repeat(8, 1) + torch.randint(0, 20, (8, 1))
    with torch.autocast("cpu", dtype=amp_dtype):
        out = gru(seq[:, :-1])
        loss = nn.functional.cross_entropy(out.flatten(0, 1), seq[:, 1:].flatten())
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(gru.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
print(f"{time.perf_counter() - t0:.2f}s")
print(f"RESULT loss={loss.item():.4f} amp={a.amp_dtype} loss_scale={scaler.get_scale():g}")
