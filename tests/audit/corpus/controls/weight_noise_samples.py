import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
SAMPLES = 3
for it in range(12):
    x = torch.randn(16, 4)
    y = x.sum(1, keepdim=True)
    clean = [p.detach().clone() for p in net.parameters()]
    for s in range(SAMPLES):
        with torch.no_grad():
            for p, c in zip(net.parameters(), clean):
                p.copy_(c + 0.01 * torch.randn_like(c))
        (nn.functional.mse_loss(net(x), y) / SAMPLES).backward()
    with torch.no_grad():
        for p, c in zip(net.parameters(), clean):
            p.copy_(c)
    opt.step()
    opt.zero_grad()
print("RESULT", float(net(x).mean()))
