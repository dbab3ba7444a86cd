import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(12)
G, D = nn.Linear(4, 6), nn.Sequential(nn.Linear(6, 16), nn.Softplus(), nn.Linear(16, 1))
opt_g = torch.optim.Adam(G.parameters(), 2e-3, betas=(0.0, 0.99))
opt_d = torch.optim.Adam(D.parameters(), 2e-3, betas=(0.0, 0.99))
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
R1_EVERY, R1_GAMMA = 4, 1.0
for i in range(12):
    x = torch.randn(10, 6) + 1
    opt_d.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        fake = G(torch.randn(10, 4))
        d_loss = F.relu(1 - D(x)).mean() + F.relu(1 + D(fake.detach())).mean()
    scaler.scale(d_loss).backward()
    if i % R1_EVERY == 0:
        xr = x.clone().requires_grad_()
        with torch.autocast("cpu", enabled=False):
            grad = torch.autograd.grad(D(xr).sum(), xr, create_graph=True)[0]
            r1 = grad.square().sum(1).mean()
        scaler.scale(r1 * (R1_GAMMA / 2 * R1_EVERY)).backward()
    scaler.step(opt_d)
    opt_g.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        g_loss = -D(fake).mean()
    scaler.scale(g_loss).backward()
    scaler.step(opt_g)
    scaler.update()
print(f"RESULT d={d_loss.item():.4f} g={g_loss.item():.4f} r1={r1.item():.4f}")
