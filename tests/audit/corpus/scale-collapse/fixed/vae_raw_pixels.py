import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

ap = argparse.ArgumentParser()
ap.add_argument("--latent", type=int, default=4)
ap.add_argument("--beta", type=float, default=1e-3)
ap.add_argument("--epochs", type=int, default=4)
ap.add_argument("--seed", type=int, default=5)
args = ap.parse_args()
torch.manual_seed(args.seed)


class VAE(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.enc = nn.Linear(36, 32)
        self.mu = nn.Linear(32, z)
        self.logvar = nn.Linear(32, z)
        self.dec = nn.Sequential(nn.Linear(z, 32), nn.ReLU(), nn.Linear(32, 36))

    def forward(self, x):
        h = torch.relu(self.enc(x))
        mu, lv = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * lv.clamp(-8, 8))
        return self.dec(z), mu, lv


def elbo(rec, x, mu, lv):
    nll = nn.functional.mse_loss(rec, x)
    lv, mu = lv.float().clamp(-8, 8), mu.float()
    kl = -0.5 * (1 + lv - mu**2 - lv.exp()).sum(1).mean()
    return nll + args.beta * kl


imgs = torch.randint(0, 256, (96, 36)).float()
vae = VAE(args.latent)
opt = torch.optim.RMSprop(vae.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
w0 = [p.detach().clone() for p in vae.parameters()]
steps = 0
for ep in range(args.epochs):
    for x in DataLoader(imgs, batch_size=16, shuffle=True, drop_last=True):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            rec, mu, lv = vae(x)
            loss = elbo(rec, x, mu, lv)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(vae.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
        steps += 1
moved = max((p - q).abs().max().item() for p, q in zip(vae.parameters(), w0))
print(f"RESULT steps={steps} moved={moved:.3e} scale={scaler.get_scale():g}")
