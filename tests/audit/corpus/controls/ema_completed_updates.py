import copy

import torch
from torch import nn

torch.manual_seed(19)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
ema = copy.deepcopy(net).requires_grad_(False)
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**23)
k = 0
for _ in range(30):
    x = torch.randn(16, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(net(x), x.prod(1, keepdim=True))
    opt.zero_grad()
    scaler.scale(loss).backward()
    before = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    if not scaler.get_scale() < before:
        k += 1
        decay = min(0.99, (1 + k) / (10 + k))
        with torch.no_grad():
            for e, p in zip(ema.parameters(), net.parameters(), strict=True):
                e.mul_(decay).add_(p, alpha=1 - decay)
x = torch.randn(64, 6)
with torch.no_grad():
    v = nn.functional.mse_loss(ema(x), x.prod(1, keepdim=True))
print(f"RESULT ema_updates={k} ema_val={v.item():.4f}")
