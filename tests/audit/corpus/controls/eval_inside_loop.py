import torch
from torch import nn

torch.manual_seed(28)
net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
ACC = 4
vx = torch.randn(50, 6)
vy = vx[:, :3].argmax(1)


@torch.no_grad()
def accuracy():
    was = net.training
    net.eval()
    with torch.autocast("cpu", dtype=torch.float16):
        hit = (net(vx).argmax(1) == vy).float().mean().item()
    net.train(was)
    return hit


best = 0.0
for i in range(1, 33):
    x = torch.randn(12, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), x[:, :3].argmax(1)) / ACC
    scaler.scale(loss).backward()
    if i % 6 == 0:
        best = max(best, accuracy())
    if i % ACC == 0:
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
print(f"RESULT best={best:.3f}")
