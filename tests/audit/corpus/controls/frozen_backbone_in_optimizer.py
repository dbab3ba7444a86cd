import torch
from torch import nn

torch.manual_seed(15)
backbone = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
head = nn.Linear(4, 2)
model = nn.Sequential(backbone, head)
for p in backbone.parameters():
    p.requires_grad_(False)
opt = torch.optim.SGD(model.parameters(), lr=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for epoch in range(3):
    model.train()
    backbone.eval()
    if epoch == 2:
        backbone[0].requires_grad_(True)
    for _ in range(4):
        x = torch.rand(6, 1, 5, 5)
        y = (x.mean((1, 2, 3)) > 0.5).long()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
print(f"RESULT loss={loss.item():.4f}")
