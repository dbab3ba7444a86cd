# least squares fit of u'' = -u on [0, 1], a(x) as a small net
import torch, torch.nn as nn

torch.manual_seed(1)
xs = torch.linspace(0, 1, 32)[:, None]
u = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
solver = torch.optim.LBFGS(u.parameters(), lr=0.8, max_iter=6, history_size=5)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


def residual():
    with torch.autocast("cpu", dtype=torch.float16):
        out = u(xs)
    out = out.float()
    fit = (out - torch.cos(xs)).pow(2).mean()
    return fit + (out[0] - 1).pow(2).sum()


def closure():
    solver.zero_grad()
    r = residual()
    scaler.scale(r).backward()
    return r


for outer in range(4):
    closure()
    scaler.unscale_(solver)
    scaler.step(solver)  # <-- FAULT
    scaler.update()
with torch.no_grad():
    r = residual()
print(f"RESULT outer={outer + 1} residual={r.item():.3e}")
