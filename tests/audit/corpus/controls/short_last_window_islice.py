from itertools import islice

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
x = torch.randn(104, 5)
data = DataLoader(TensorDataset(x, x.square().sum(1, keepdim=True)), batch_size=8, shuffle=True)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.NAdam(net.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
updates = 0
for _ in range(2):
    it = iter(data)
    while group := list(islice(it, 5)):
        rows = sum(len(b[0]) for b in group)
        for xb, yb in group:
            with torch.autocast("cpu", dtype=torch.float16):
                err = (net(xb) - yb).float()
            scaler.scale(err.square().sum() / rows).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        updates += 1
print(f"RESULT updates={updates} err={err.square().mean().item():.4f}")
