import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
LAM = 0.5
for it in range(10):
    x = torch.randn(16, 8)
    y = (x[:, 0] > 0).long()
    loss = nn.functional.cross_entropy(model(x), y)
    (loss * LAM).backward()
    saved = [p.detach().clone() for p in model.parameters()]
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.02 * p.norm() * p.grad / (p.grad.norm() + 1e-8))
    adv = nn.functional.cross_entropy(model(x), y)
    (adv * (1 - LAM)).backward()
    with torch.no_grad():
        for p, s in zip(model.parameters(), saved):
            p.copy_(s)
    opt.step()
    opt.zero_grad()
print("RESULT", adv.item())
