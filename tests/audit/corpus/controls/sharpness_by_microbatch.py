import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
params = list(net.parameters())
opt = torch.optim.SGD(params, lr=0.1)
K = 3
for it in range(8):
    opt.zero_grad()
    for k in range(K):
        x = torch.randn(8, 6)
        y = (x[:, 0] > 0).long()
        g = torch.autograd.grad(nn.functional.cross_entropy(net(x), y), params)
        norm = torch.stack([each.norm() for each in g]).norm()
        e = [0.05 * each / norm for each in g]
        with torch.no_grad():
            torch._foreach_add_(params, e)
        (nn.functional.cross_entropy(net(x), y) / K).backward()
        with torch.no_grad():
            torch._foreach_sub_(params, e)
    opt.step()
print("RESULT", float(norm))
