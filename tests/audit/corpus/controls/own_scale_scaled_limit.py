import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
params = list(net.parameters())
opt = torch.optim.SGD(params, lr=0.1)
SCALE, MAX = 1024.0, 0.5
for it in range(10):
    x = torch.randn(16, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long())
    opt.zero_grad()
    (loss * SCALE).backward()
    nn.utils.clip_grad_norm_(params, MAX * SCALE)
    for p in params:
        p.grad /= SCALE
    opt.step()
print("RESULT", loss.item())
