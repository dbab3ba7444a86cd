import torch
from torch import nn

torch.manual_seed(4)
net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 16, 10), nn.ReLU(), nn.Linear(10, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
p0 = [p.detach().clone() for p in net.parameters()]


def clip_(params, scale, c):
    gs = [p.grad for p in params if p.grad is not None]
    n = sum(float((g / scale).norm()) ** 2 for g in gs) ** 0.5
    if n > c:
        for g in gs:
            g *= c / n
    return n


for i in range(25):
    img = torch.randn(16, 1, 6, 6)
    cls = (img.mean((1, 2, 3)) > 0).long()
    net.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(img), cls)
    scaler.scale(loss).backward()
    clip_(net.parameters(), scaler.get_scale(), 3.0)
    scaler.step(opt)
    scaler.update()

d = sum((a.detach() - b).pow(2).sum() for a, b in zip(net.parameters(), p0)) ** 0.5
print(f"RESULT displacement={float(d):.4e}")
