import math

import torch
from torch import nn

torch.manual_seed(3)
MAX_NORM = 0.7
model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 4))
params = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.Adam(params, lr=2e-3)
scaler = torch.amp.GradScaler("cpu")


def rescale(tensors, limit):
    sq = 0.0
    for t in tensors:
        sq += t.grad.detach().double().pow(2).sum().item()
    norm = math.sqrt(sq) if math.isfinite(sq) else float("inf")
    if norm > limit and math.isfinite(norm):
        for t in tensors:
            t.grad.mul_(limit / norm)
    return norm


seen = []
for _ in range(20):
    x = torch.randn(16, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), x[:, :4].argmax(1))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    seen.append(rescale(params, MAX_NORM))
    scaler.step(optimizer)
    scaler.update()
    for p in params:
        p.grad = None
print(f"RESULT loss={loss.item():.4f} last_norm={seen[-1]:.4f}")
