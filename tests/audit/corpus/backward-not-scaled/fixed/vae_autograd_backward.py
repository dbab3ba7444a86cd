import torch
import torch.nn as nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, d=12, h=16, z=2):
        super().__init__()
        self.e1, self.mu, self.lv = nn.Linear(d, h), nn.Linear(h, z), nn.Linear(h, z)
        self.d1, self.d2 = nn.Linear(z, h), nn.Linear(h, d)

    def forward(self, x):
        h = F.relu(self.e1(x))
        mu, lv = self.mu(h), self.lv(h)
        z = mu + torch.randn_like(mu) * (0.5 * lv).exp()
        return self.d2(F.relu(self.d1(z))), mu, lv


def elbo_terms(model, x):
    with torch.autocast("cpu", dtype=torch.float16):
        rec, mu, lv = model(x)
    mu, lv = mu.float(), lv.float()
    bce = F.binary_cross_entropy_with_logits(rec.float(), x, reduction="sum") / len(x)
    kld = -0.5 * (1 + lv - mu.pow(2) - lv.exp()).sum(1).mean()
    return bce, kld


torch.manual_seed(2)
vae = VAE()
optimizer = torch.optim.Adam(vae.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
proto = (torch.rand(4, 12) > 0.5).float()
for epoch in range(40):
    x = proto[torch.randint(0, 4, (32,))]
    bce, kld = elbo_terms(vae, x)
    optimizer.zero_grad()
    torch.autograd.backward([scaler.scale(bce), scaler.scale(kld)])
    scaler.step(optimizer)
    scaler.update()
print(f"RESULT bce={bce.item():.3f} kld={kld.item():.3f}")
