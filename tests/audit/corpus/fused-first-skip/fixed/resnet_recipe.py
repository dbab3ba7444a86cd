import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
for it in range(18):
    x = torch.randn(32, 20) * 3
    y = x[:, :5].argmax(1)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
largest = max(p.abs().max().item() for p in net.parameters())
print(f"RESULT loss={loss.item():.4f} largest_weight={largest:.4g} scale={scaler.get_scale():g}")
