import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
ACC = 4
for i in range(24):
    x = torch.randn(16, 6)
    y = x[:, :3].argmax(1)
    lam = float(torch.distributions.Beta(0.4, 0.4).sample())
    perm = torch.randperm(16)
    out = net(lam * x + (1 - lam) * x[perm])
    loss = lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y[perm])
    loss.backward()  # <-- FAULT
    if (i + 1) % ACC == 0:
        opt.step()
        opt.zero_grad()
print("RESULT", loss.item())
