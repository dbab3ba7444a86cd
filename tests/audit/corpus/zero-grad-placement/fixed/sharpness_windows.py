import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
params = list(net.parameters())
opt = torch.optim.SGD(params, lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
K, RHO = 2, 0.05


def accumulate(window):
    for x in window:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long()) / K
        scaler.scale(loss).backward()


for it in range(8):
    window = [torch.randn(8, 6) for _ in range(K)]
    accumulate(window)
    inv = 1.0 / scaler.get_scale()
    with torch.no_grad():
        norm = torch.stack([(p.grad * inv).norm() for p in params]).norm()
        eps = [p.grad * inv * (RHO / (norm + 1e-12)) for p in params]
        torch._foreach_add_(params, eps)
    opt.zero_grad()
    accumulate(window)
    with torch.no_grad():
        torch._foreach_sub_(params, eps)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
print("RESULT", float(norm))
