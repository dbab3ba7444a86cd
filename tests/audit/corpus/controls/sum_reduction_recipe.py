import torch
from torch import nn

torch.manual_seed(42)
net = nn.Sequential(nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 1))
BATCH = 16
opt = torch.optim.SGD(net.parameters(), lr=0.05 / BATCH)
mse = nn.MSELoss(reduction="sum")
scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
for _ in range(20):
    x = torch.randn(BATCH, 4)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = mse(net(x), x.amax(1, keepdim=True))
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
print(f"RESULT loss_per_item={loss.item() / BATCH:.4f}")
