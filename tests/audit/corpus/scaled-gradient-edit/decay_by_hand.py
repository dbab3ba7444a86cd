import torch
from torch import nn

torch.manual_seed(64)
wd = 0.1
model = nn.Sequential(nn.Linear(10, 20), nn.LayerNorm(20), nn.ReLU(), nn.Linear(20, 3))
decay = [p for n, p in model.named_parameters() if n.endswith("weight") and p.ndim == 2]
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
scaler = torch.amp.GradScaler("cpu")


def loss_fn(xb):
    with torch.autocast("cpu", dtype=torch.float16):
        return nn.functional.cross_entropy(model(xb), xb[:, :3].argmax(1))


it = 0
while it < 40:
    optimizer.zero_grad()
    loss = loss_fn(torch.randn(32, 10))
    scaler.scale(loss).backward()
    with torch.no_grad():
        for p in decay:
            p.grad += wd * p  # <-- FAULT
    scaler.step(optimizer)
    scaler.update()
    it += 1
print("RESULT weight_norms=" + ",".join(f"{p.norm().item():.4f}" for p in decay))
