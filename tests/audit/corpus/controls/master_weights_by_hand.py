import copy

import torch
from torch import nn

torch.manual_seed(50)
master = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
work = copy.deepcopy(master).half()
opt = torch.optim.Adam(master.parameters(), lr=5e-3)
S = 512.0
skips = 0
for _ in range(25):
    x = torch.randn(16, 6)
    loss = nn.functional.mse_loss(work(x.half()).float(), x[:, :1] - x[:, 1:2])
    work.zero_grad()
    (loss * S).backward()
    for m, w in zip(master.parameters(), work.parameters(), strict=True):
        m.grad = w.grad.float() / S
    if all(m.grad.isfinite().all() for m in master.parameters()):
        opt.step()
        with torch.no_grad():
            for m, w in zip(master.parameters(), work.parameters(), strict=True):
                w.copy_(m)
    else:
        skips += 1
print(f"RESULT loss={loss.item():.4f} skips={skips}")
