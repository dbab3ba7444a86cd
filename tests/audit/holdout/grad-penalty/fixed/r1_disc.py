import torch
import torch.nn.functional as F
from r1_disc_lib import r1_penalty
from torch import nn


class Disc(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 6, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(6, 8, 3, stride=2, padding=1)
        self.fc = nn.Linear(32, 1)

    def forward(self, x):
        x = F.softplus(self.c1(x))
        return self.fc(F.softplus(self.c2(x)).flatten(1))


class Gen(nn.Module):
    def __init__(self, z=4):
        super().__init__()
        self.fc = nn.Linear(z, 64)

    def forward(self, z):
        return torch.tanh(self.fc(z)).view(-1, 1, 8, 8)


def reals(n, g):
    k = torch.rand(n, 1, 1, 1, generator=g)
    grid = torch.linspace(-1, 1, 8).view(1, 1, 1, 8)
    return torch.tanh(3 * (grid - k + 0.5)).expand(-1, -1, 8, -1).clone()


class GAN:
    r1_every, gamma = 2, 0.2

    def __init__(self):
        self.G, self.D = Gen(), Disc()
        self.og = torch.optim.Adam(self.G.parameters(), lr=5e-3, betas=(0.0, 0.99))
        self.od = torch.optim.Adam(self.D.parameters(), lr=5e-3, betas=(0.0, 0.99))
        self.sg = torch.amp.GradScaler("cpu", init_scale=64.0)
        self.sd = torch.amp.GradScaler("cpu", init_scale=64.0)
        self.r1 = []

    def d_step(self, x, it):
        self.od.zero_grad()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            fake = self.G(torch.randn(len(x), 4))
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.softplus(self.D(fake)).mean() + F.softplus(-self.D(x)).mean()
        if it % self.r1_every == 0:
            pen = r1_penalty(self.D, x, self.sd)
            self.r1.append(pen.item())
            loss = loss + 0.5 * self.gamma * self.r1_every * pen
        self.sd.scale(loss).backward()
        self.sd.step(self.od)
        self.sd.update()
        return loss.item()

    def g_step(self, n):
        self.og.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.softplus(-self.D(self.G(torch.randn(n, 4)))).mean()
        self.sg.scale(loss).backward()
        self.sg.step(self.og)
        self.sg.update()
        return loss.item()


def main(iters=10):
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    gan = GAN()
    for it in range(iters):
        ld = gan.d_step(reals(8, g), it)
        lg = gan.g_step(8)
    print(f"D {ld:.3f} G {lg:.3f}")
    print(f"RESULT r1={','.join(f'{v:.4g}' for v in gan.r1)} scale_d={gan.sd.get_scale():.0f}")


if __name__ == "__main__":
    main()
