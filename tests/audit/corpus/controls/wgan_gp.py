import torch
from torch import nn

torch.manual_seed(10)
G = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
C = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.0, 0.9))
oc = torch.optim.Adam(C.parameters(), lr=1e-3, betas=(0.0, 0.9))
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)


def penalty(real, fake):
    a = torch.rand(real.size(0), 1)
    mid = (a * real + (1 - a) * fake).requires_grad_(True)
    with torch.autocast("cpu", dtype=torch.float16):
        score = C(mid)
    (g,) = torch.autograd.grad(scaler.scale(score.float().sum()), mid, create_graph=True)
    g = g / scaler.get_scale()
    return (g.float().norm(2, dim=1) - 1).square().mean()


for it in range(5):
    for _ in range(3):
        real = torch.randn(12, 2) * 0.5 + 1
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            fake = G(torch.randn(12, 3)).float()
        oc.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            w = C(fake).mean() - C(real).mean()
        gp = penalty(real, fake)
        scaler.scale(w + 10 * gp).backward()
        scaler.step(oc)
        scaler.update()
    og.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        lg = -C(G(torch.randn(12, 3))).mean()
    scaler.scale(lg).backward()
    scaler.step(og)
    scaler.update()
print(f"RESULT w={w.item():.4f} gp={gp.item():.4f} g={lg.item():.4f}")
