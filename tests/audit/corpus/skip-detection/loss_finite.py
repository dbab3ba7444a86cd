import math

import torch
from torch import nn
import torch.nn.functional as F


def batches():
    gen = torch.Generator().manual_seed(77)
    for _ in range(24):
        x = torch.randn(20, 4, 10, generator=gen)
        yield x, 25 * x.mean((1, 2)).unsqueeze(1)


torch.manual_seed(77)
net = nn.Sequential(nn.Conv1d(4, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
lr_sched = torch.optim.lr_scheduler.StepLR(optimizer, step_size=6, gamma=0.5)
grad_scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=5)

for x, y in batches():
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.mse_loss(net(x), y)
    grad_scaler.scale(loss).backward()
    grad_scaler.step(optimizer)
    grad_scaler.update()
    if math.isfinite(loss.item()):  # an overflowed batch is not an update
        lr_sched.step()  # <-- FAULT

adam_t = int(next(iter(optimizer.state.values()))["step"])
print(f"RESULT adam_t={adam_t} ticks={lr_sched.last_epoch} lr={optimizer.param_groups[0]['lr']:.2e}")
