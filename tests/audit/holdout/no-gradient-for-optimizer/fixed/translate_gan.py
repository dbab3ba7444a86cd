import torch
from torch import nn


class G(nn.Module):
    def __init__(self, z=4, d=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(z, 16), nn.LeakyReLU(0.2), nn.Linear(16, d))

    def forward(self, z):
        return self.body(z)


class D(nn.Module):
    def __init__(self, d=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, x):
        return self.body(x)


class Gan:
    def __init__(self):
        torch.manual_seed(2)
        self.g, self.d = G(), D()
        self.og = torch.optim.Adam(self.g.parameters(), lr=2e-3, betas=(0.5, 0.99))
        self.od = torch.optim.Adam(self.d.parameters(), lr=2e-3, betas=(0.5, 0.99))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
        self.adv = nn.BCEWithLogitsLoss()

    def judge(self, x, real):
        s = self.d(x).float()
        return self.adv(s, torch.full_like(s, float(real)))

    def iteration(self, real, z):
        with torch.autocast("cpu", dtype=torch.float16):
            fake = self.g(z)
            loss_d = self.judge(real, 1) + self.judge(fake.detach(), 0)
        self.od.zero_grad()
        self.scaler.scale(loss_d).backward()
        self.scaler.step(self.od)

        with torch.autocast("cpu", dtype=torch.float16):
            loss_g = self.judge(fake, 1)
        self.og.zero_grad()
        self.scaler.scale(loss_g).backward()
        self.scaler.step(self.og)
        self.scaler.update()
        return loss_d.item(), loss_g.item()


def main(steps=20):
    gan = Gan()
    rng = torch.Generator().manual_seed(3)
    mean = torch.arange(6.0) / 3
    w = gan.g.body[2].weight.detach().clone()
    for i in range(steps):
        ld, lg = gan.iteration(mean + 0.3 * torch.randn(16, 6, generator=rng), torch.randn(16, 4, generator=rng))
        if i % 5 == 0:
            print(f"{i} d {ld:.3f} g {lg:.3f}")
    print(f"RESULT d={ld:.4f} g={lg:.4f} generator_moved={(gan.g.body[2].weight - w).norm().item():.4f}")


main()
