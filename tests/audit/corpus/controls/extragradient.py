import torch
from torch import nn

torch.manual_seed(0)
a, b = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))
opt = torch.optim.Adam([a, b], lr=0.02)


def loss():
    return (a * b).sum() + 0.1 * (a.square().mean() - b.square().mean())


for it in range(10):
    opt.zero_grad()
    loss().backward()
    keep = [a.detach().clone(), b.detach().clone()]
    with torch.no_grad():
        a.sub_(0.02 * a.grad)
        b.add_(0.02 * b.grad)
    opt.zero_grad()
    loss().backward()
    with torch.no_grad():
        a.copy_(keep[0])
        b.copy_(keep[1])
        b.grad.neg_()
    opt.step()
print("RESULT", a.norm().item())
