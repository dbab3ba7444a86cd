import torch
from torch import nn

torch.manual_seed(71)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**19)
limit = 30.0
scales, errs = [], []
X = torch.randn(48, 6)
Y = X[:, :1] * 0.2

for epoch in range(20):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.l1_loss(net(X), Y) * 4
    scaler.scale(loss).backward()
    nn.utils.clip_grad_value_(net.parameters(), limit * scaler.get_scale())  # <-- FAULT
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
    errs.append(loss.item() / 4)
print(f"RESULT scale={scales[-1]:.0f} mae={errs[-1]:.4f}")
