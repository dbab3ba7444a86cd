import copy

import torch
from torch import nn

torch.manual_seed(58)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
gap = []
for i in range(20):
    x = torch.randn(16, 4)
    loss = nn.functional.mse_loss(net(x), x.square().sum(1, keepdim=True))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if i % 5 == 4:
        deploy = copy.deepcopy(net).half().eval()
        with torch.no_grad():
            gap.append((deploy(x.half()).float() - net(x)).abs().max().item())
print(f"RESULT loss={loss.item():.4f} worst_gap={max(gap):.5f}")
