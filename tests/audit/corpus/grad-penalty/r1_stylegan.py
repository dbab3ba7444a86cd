import torch
from torch import nn
import torch.nn.functional as F


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 4, 3, stride=2, padding=1)
        self.fc = nn.Linear(4 * 16, 1)

    def forward(self, img):
        return self.fc(F.leaky_relu(self.c1(img), 0.2).flatten(1)).squeeze(1)


def d_r1_loss(real_pred, real_img, scaler):
    (grad_real,) = torch.autograd.grad(outputs=scaler.scale(real_pred.sum()), inputs=real_img, create_graph=True)
    return grad_real.float().pow(2).flatten(1).sum(1).mean()  # <-- FAULT


torch.manual_seed(0)
r1_gamma, d_reg_every = 10.0, 4
netD = Discriminator()
d_optim = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.0, 0.99))
scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
r1s = []
for i in range(24):
    real, fake = torch.randn(8, 1, 8, 8) * 0.5 + 0.3, torch.randn(8, 1, 8, 8)
    d_optim.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.softplus(netD(fake)).mean() + F.softplus(-netD(real)).mean()
    scaler.scale(loss).backward()
    scaler.step(d_optim)
    scaler.update()

    if i % d_reg_every == 0:
        real.requires_grad_(True)
        d_optim.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            pred = netD(real)
        r1 = d_r1_loss(pred, real, scaler)
        scaler.scale(r1_gamma / 2 * r1 * d_reg_every).backward()
        scaler.step(d_optim)
        scaler.update()
        r1s.append(r1.item())
print(f"RESULT r1_first={r1s[0]:.4g} r1_last={r1s[-1]:.4g} scale={scaler.get_scale():g}")
