import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(60)
online = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 6))
pred = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6))
target = copy.deepcopy(online)
for p in target.parameters():
    p.requires_grad = False
opt = torch.optim.SGD([*online.parameters(), *pred.parameters()], lr=0.1, momentum=0.9)
for k in range(12):
    x = torch.randn(24, 8)
    a, b = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with torch.no_grad():
            ta, tb = target(a), target(b)
        pa, pb = pred(online(a)), pred(online(b))
    loss = 2 - F.cosine_similarity(pa.float(), tb.float()).mean() - F.cosine_similarity(pb.float(), ta.float()).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    m = 1 - (1 - 0.99) * (1 - k / 12)
    with torch.no_grad():
        torch._foreach_lerp_(list(target.parameters()), list(online.parameters()), 1 - m)
print(f"RESULT loss={loss.item():.4f}")
