import torch
from torch import nn

torch.manual_seed(63)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
ps = list(net.parameters())
opt = torch.optim.SGD(ps, lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for _ in range(12):
    x = torch.randn(16, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        o = net(x)
        tasks = [nn.functional.mse_loss(o[:, 0], x[:, 0]), nn.functional.mse_loss(o[:, 1], -x[:, 0])]
    flat = [torch.cat([g.flatten() for g in torch.autograd.grad(scaler.scale(t), ps, retain_graph=True)]) for t in tasks]
    g1, g2 = flat
    dot = torch.dot(g1 / g1.norm(), g2 / g2.norm())
    if dot < 0:
        g1, g2 = g1 - (g1 @ g2) / (g2 @ g2) * g2, g2 - (g1 @ g2) / (g1 @ g1) * g1
    merged = g1 + g2
    for p, chunk in zip(ps, merged.split([p.numel() for p in ps]), strict=True):
        p.grad = chunk.view_as(p).clone()
    scaler.step(opt)
    scaler.update()
print(f"RESULT a={tasks[0].item():.4f} b={tasks[1].item():.4f}")
