import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for _ in range(8):
    window = [torch.randn(8, 6), torch.randn(5, 6)]
    total = sum(len(x) for x in window)
    opt.zero_grad()
    for x in window:
        out = net(x)
        loss = F.mse_loss(out[:, 0], x[:, 0]) + 0.5 * F.l1_loss(out[:, 1], x[:, 1])
        loss = loss / (total / len(x))
        loss.backward()
    opt.step()
print("RESULT", loss.item())
