from __future__ import annotations

import torch
import torch.nn as nn


class D(nn.Module):
    def __init__(self, nc=1, ndf=4):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(nc, ndf, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(ndf, 2 * ndf, 4, 2, 1),
            nn.Flatten(),
            nn.Linear(2 * ndf * 4, 1),
        )

    def forward(self, x):
        return self.main(x).view(-1)


class G(nn.Module):
    def __init__(self, nz=6):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(nz, 32), nn.ReLU(True), nn.Linear(32, 64), nn.Tanh())

    def forward(self, z):
        return self.main(z).view(-1, 1, 8, 8)


torch.manual_seed(999)
netD, netG = D(), G()
act = nn.Sigmoid()
criterion = nn.BCELoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-2, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
for i in range(12):
    real = torch.rand(16, 1, 8, 8).bernoulli() * 8 - 4
    noise = torch.randn(16, 6)
    label = torch.cat([torch.full((16,), 0.9), torch.zeros(16)])
    # D
    netD.zero_grad()
    fake = netG(noise)
    with torch.autocast("cpu", dtype=torch.float16):
        out = netD(torch.cat([real, fake.detach()]))
        errD = criterion(act(out * 6), label)  # <-- FAULT
    scaler.scale(errD).backward()
    scaler.step(optimizerD)
    # G
    netG.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        errG = nn.functional.softplus(-netD(netG(noise)).float()).mean()
    scaler.scale(errG).backward()
    scaler.step(optimizerG)
    scaler.update()
print(f"RESULT errD={errD.item():.4f} errG={errG.item():.4f}")
