import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
body, a, b = nn.Linear(6, 12), nn.Linear(12, 2), nn.Linear(12, 1)
params = [*body.parameters(), *a.parameters(), *b.parameters()]
opt = torch.optim.SGD(params, lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
K = 3
for _ in range(8):
    opt.zero_grad()
    for k in range(K):
        x = torch.randn(8, 6)
        with torch.autocast("cpu", dtype=torch.float16):
            h = torch.relu(body(x))
            ce = F.cross_entropy(a(h), (x[:, 0] > 0).long())
            reg = F.mse_loss(b(h), x[:, :1])
        torch.autograd.backward([scaler.scale(ce / K), scaler.scale(reg / K)])
    scaler.step(opt)
    scaler.update()
print("RESULT", ce.item())
