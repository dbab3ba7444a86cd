import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
meta = torch.optim.Adam(net.parameters(), lr=1e-2)
TASKS = 3
for it in range(6):
    start = [p.detach().clone() for p in net.parameters()]
    sums = [torch.zeros_like(p) for p in start]
    for task in range(TASKS):
        phase = torch.rand(()) * 3
        x = torch.randn(10, 1)
        inner = nn.functional.mse_loss(net(x), torch.sin(x + phase))
        grads = torch.autograd.grad(inner, list(net.parameters()))
        with torch.no_grad():
            for p, g in zip(net.parameters(), grads):
                p.sub_(0.1 * g)
        x = torch.randn(10, 1)
        outer = nn.functional.mse_loss(net(x), torch.sin(x + phase)) / TASKS
        outer.backward()
        with torch.no_grad():
            for p, s in zip(net.parameters(), start):
                p.copy_(s)
    meta.step()
    meta.zero_grad()
print("RESULT", outer.item())
