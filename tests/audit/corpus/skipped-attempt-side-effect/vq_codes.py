import torch
from torch import nn
from torch.nn import functional as F


class Quantizer(nn.Module):
    def __init__(self, k, d, gamma=0.8):
        super().__init__()
        self.gamma = gamma
        self.register_buffer("codes", torch.randn(k, d))
        self.register_buffer("usage", torch.ones(k))
        self.register_buffer("sums", self.codes.clone())

    def forward(self, z):
        idx = torch.cdist(z.float(), self.codes).argmin(1)
        if self.training:
            self._ema(z.detach().float(), idx)
        q = self.codes[idx]
        return z + (q - z).detach(), F.mse_loss(z.float(), q)

    @torch.no_grad()
    def _ema(self, z, idx):
        hot = F.one_hot(idx, len(self.codes)).float()
        self.usage.lerp_(hot.sum(0), 1 - self.gamma)
        self.sums.lerp_(torch.zeros_like(self.sums).index_add_(0, idx, z), 1 - self.gamma)  # <-- FAULT
        self.codes.copy_(self.sums / self.usage.clamp_min(1e-3)[:, None])


class VQAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4))
        self.vq = Quantizer(8, 4)
        self.dec = nn.Linear(4, 12)

    def forward(self, x):
        q, commit = self.vq(self.enc(x))
        return F.mse_loss(self.dec(q).float(), x) + 0.25 * commit


torch.manual_seed(9)
model = VQAE()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
for i in range(18):
    x = torch.randn(24, 12)
    if i == 9:
        x[5] *= 1e7
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(x)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
model.eval()
with torch.no_grad():
    val = model(torch.randn(24, 12)).item()
dead = int((~model.vq.codes.isfinite()).any(1).sum())
print(f"RESULT val={val:.4f} steps={int(opt.state[model.dec.weight]['step'])} dead_codes={dead}")
