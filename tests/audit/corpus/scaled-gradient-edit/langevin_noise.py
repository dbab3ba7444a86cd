import torch
from torch import nn

torch.manual_seed(20)
temperature, lr = 0.5, 0.02
net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=lr)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
x = torch.linspace(-1, 1, 32).unsqueeze(1)
x = torch.cat([x, x**2], 1)
y = x.sum(1, keepdim=True)
trace = []
for it in range(40):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(net(x), y)
    scaler.scale(loss).backward()
    # SGLD
    for p in net.parameters():
        p.grad.add_(torch.randn_like(p.grad), alpha=(2 * temperature / lr) ** 0.5)  # <-- FAULT
    scaler.step(opt)
    scaler.update()
    trace.append(net[2].bias.item())
t = torch.tensor(trace)
print(f"RESULT sample_std={(t[1:] - t[:-1]).std().item():.3e} expected_about={lr * (2 * temperature / lr) ** 0.5:.3f}")
