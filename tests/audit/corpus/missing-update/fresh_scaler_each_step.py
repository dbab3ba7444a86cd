import torch
from torch import nn

torch.manual_seed(8)


def build():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))


def train_step(net, opt, batch):
    x, y = batch
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**17)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        pred = net(x)
        loss = nn.functional.mse_loss(pred, y)
    scaler.scale(loss).backward()
    scaler.step(opt)  # <-- FAULT
    return loss.detach()


net = build()
opt = torch.optim.Adam(net.parameters(), lr=3e-2)
x = torch.rand(32, 4) * 3
y = 12 * x.sum(1, keepdim=True)
w = net[0].weight.detach().clone()
for _ in range(30):
    loss = train_step(net, opt, (x, y))
print(f"RESULT loss={loss.item():.3f} moved={(net[0].weight - w).abs().max().item():.3e}")
