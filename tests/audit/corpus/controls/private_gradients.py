import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.2)
C, SIGMA = 1.0, 0.1


def loss_one(params, x, y):
    return nn.functional.cross_entropy(functional_call(net, params, (x[None],)), y[None])


for it in range(8):
    x = torch.randn(12, 5)
    y = (x[:, 0] > 0).long()
    params = {k: v.detach() for k, v in net.named_parameters()}
    per = vmap(grad(loss_one), in_dims=(None, 0, 0))(params, x, y)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in per.values()]).norm(dim=0)
    factor = (C / (norms + 1e-6)).clamp(max=1.0)
    for name, p in net.named_parameters():
        g = torch.einsum("b...,b->...", per[name], factor)
        p.grad = (g + SIGMA * C * torch.randn_like(g)) / len(x)
    opt.step()
    opt.zero_grad()
print("RESULT", float(norms.mean()))
