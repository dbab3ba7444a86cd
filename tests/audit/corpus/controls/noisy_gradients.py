import torch
from torch import nn

torch.manual_seed(8)
net = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
amp = torch.amp.GradScaler("cpu", init_scale=1024.0)
rng = torch.Generator().manual_seed(0)
for t in range(15):
    x = torch.randn(16, 5)
    y = (x[:, 0] > x[:, 1]).long()
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), y)
    amp.scale(loss).backward()
    amp.unscale_(opt)
    sigma = (0.01 / (1 + t) ** 0.55) ** 0.5
    for p in net.parameters():
        p.grad.add_(torch.randn(p.shape, generator=rng), alpha=sigma)
    amp.step(opt)
    amp.update()
print(f"RESULT loss={loss.item():.4f}")
