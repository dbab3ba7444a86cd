# beta-VAE on 8-dim toy data, effective batch = MICRO * STEPS_PER_UPDATE
import torch
from torch import nn
from torch.nn import functional as F

MICRO, STEPS_PER_UPDATE, BETA = 8, 8, 0.5
torch.manual_seed(2024)
enc = nn.Linear(8, 2 * 3)
dec = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 8))
opt = torch.optim.SGD([{"params": enc.parameters(), "lr": 0.01}, {"params": dec.parameters(), "lr": 0.02}])
mixing = torch.randn(3, 8)


def elbo_terms(x):
    mu, logvar = enc(x).float().chunk(2, -1)
    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
    rec = F.mse_loss(dec(z).float(), x)
    kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(-1).mean()
    return rec, kl


it, kls = 0, []
opt.zero_grad()
while it < 12 * STEPS_PER_UPDATE:
    x = torch.randn(MICRO, 3) @ mixing
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rec, kl = elbo_terms(x)
    loss = rec / STEPS_PER_UPDATE + BETA * kl  # <-- FAULT
    loss.backward()
    it += 1
    if it % STEPS_PER_UPDATE == 0:
        opt.step()
        opt.zero_grad()
        kls.append(kl.item())
print(f"RESULT updates={len(kls)} final_kl={kls[-1]:.4f} final_rec={rec.item():.4f}")
