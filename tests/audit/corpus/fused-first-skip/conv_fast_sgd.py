import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_optimizer(model):
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": 1e-3}, {"params": plain}]
    return torch.optim.SGD(groups, lr=0.02, momentum=0.9, fused=True)  # <-- FAULT


torch.manual_seed(6)
model = nn.Sequential(
    nn.Conv2d(2, 6, 3), nn.GroupNorm(2, 6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 24), nn.ReLU(), nn.Linear(24, 3)
)
data = TensorDataset(torch.randn(128, 2, 6, 6), torch.randint(0, 3, (128,)))
opt = make_optimizer(model)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**19, growth_interval=1000)
ref = torch.cat([p.detach().flatten() for p in model.parameters()])
for x, y in DataLoader(data, batch_size=8):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
now = torch.cat([p.detach().flatten() for p in model.parameters()])
print(f"RESULT travelled={(now - ref).norm().item():.5g} nan={int(now.isnan().sum())} scale={scaler.get_scale():g}")
