import torch
from torch import nn
from torch.distributions import Beta

torch.manual_seed(35)
net = nn.Sequential(
    nn.Conv2d(1, 6, 3, padding=1), nn.GroupNorm(2, 6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)
)
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
beta = Beta(0.4, 0.4)
ce = nn.CrossEntropyLoss(label_smoothing=0.05)
for i in range(10):
    y = torch.randint(0, 3, (8,))
    x = torch.randn(8, 1, 6, 6) + y.view(-1, 1, 1, 1)
    lam, perm = beta.sample().item(), torch.randperm(8)
    if i % 2:
        x = lam * x + (1 - lam) * x[perm]
    else:
        cut = round(6 * (1 - lam))
        x[..., :cut] = x[perm][..., :cut]
        lam = 1 - cut / 6
    with torch.autocast("cpu", dtype=torch.float16):
        z = net(x)
        loss = lam * ce(z, y) + (1 - lam) * ce(z, y[perm])
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
print(f"RESULT loss={loss.item():.4f}")
