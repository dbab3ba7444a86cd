import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(53)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
meta = torch.optim.Adam(net.parameters(), lr=5e-3)
TASKS = 3


def mse(params, x, y):
    return (functional_call(net, params, (x,)) - y).square().mean()


for _ in range(10):
    meta.zero_grad()
    total = 0.0
    for _ in range(TASKS):
        amp, ph = torch.rand(1) * 4 + 0.1, torch.rand(1) * 3.14
        x = torch.rand(20, 1) * 10 - 5
        y = amp * torch.sin(x + ph)
        fast = dict(net.named_parameters())
        for _ in range(2):
            g = torch.autograd.grad(mse(fast, x[:10], y[:10]), fast.values(), create_graph=True)
            fast = {k: v - 0.01 * gi for (k, v), gi in zip(fast.items(), g, strict=True)}
        outer = mse(fast, x[10:], y[10:]) / TASKS
        outer.backward()
        total += outer.item()
    meta.step()
print(f"RESULT meta_loss={total:.4f}")
