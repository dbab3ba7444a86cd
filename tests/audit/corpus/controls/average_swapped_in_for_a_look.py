import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
ema = [p.detach().clone() for p in net.parameters()]
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(16):
    x = torch.randn(8, 6)
    (nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long()) / 4).backward()
    if i % 3 == 1:
        kept = [p.detach().clone() for p in net.parameters()]
        with torch.no_grad():
            for p, e in zip(net.parameters(), ema):
                p.copy_(e)
            net(torch.randn(32, 6)).mean()
            for p, k in zip(net.parameters(), kept):
                p.copy_(k)
    if (i + 1) % 4 == 0:
        opt.step()
        opt.zero_grad()
        with torch.no_grad():
            for e, p in zip(ema, net.parameters()):
                e.lerp_(p, 0.05)
print("RESULT", ema[0].norm().item())
