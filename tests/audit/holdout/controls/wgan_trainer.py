import copy
import logging
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn, optim

log = logging.getLogger("wgan")


@dataclass
class Config:
    z_dim: int = 4
    width: int = 20
    batch: int = 16
    n_critic: int = 2
    gp_weight: float = 2.0
    iters: int = 8
    lr_g: float = 2e-3
    lr_d: float = 4e-3
    ema: float = 0.9
    scale_g: float = 2.0**12
    scale_d: float = 2.0**19


class Generator(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.l1, self.l2 = nn.Linear(c.z_dim, c.width), nn.Linear(c.width, 2)
        self.norm = nn.LayerNorm(c.width)

    def forward(self, z):
        return self.l2(F.leaky_relu(self.norm(self.l1(z)), 0.2))


class Critic(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, c.width), nn.Softplus(), nn.Linear(c.width, c.width), nn.Softplus())
        self.score = nn.Linear(c.width, 1)

    def forward(self, x):
        return self.score(self.net(x)).squeeze(1)


def ring(n, gen):
    k = torch.randint(0, 6, (n,), generator=gen).float() * (2 * torch.pi / 6)
    return torch.stack([k.cos(), k.sin()], 1) + 0.05 * torch.randn(n, 2, generator=gen)


class Ema:
    def __init__(self, net, beta):
        self.net = copy.deepcopy(net).requires_grad_(False)
        self.beta, self.steps = beta, 0

    @torch.no_grad()
    def step(self, net):
        self.steps += 1
        for a, b in zip(self.net.parameters(), net.parameters(), strict=True):
            a.mul_(self.beta).add_(b, alpha=1 - self.beta)


class Side:
    def __init__(self, net, lr, scale):
        self.net = net
        self.opt = optim.Adam(net.parameters(), lr=lr, betas=(0.0, 0.9))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=50)
        self.done = self.skipped = 0

    def apply(self, loss, clip=None):
        self.opt.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        if clip:
            self.scaler.unscale_(self.opt)
            nn.utils.clip_grad_norm_(self.net.parameters(), clip)
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        ok = self.scaler.get_scale() >= before
        self.done += ok
        self.skipped += not ok
        return ok


class WGAN:
    def __init__(self, cfg):
        self.cfg = cfg
        self.g = Side(Generator(cfg), cfg.lr_g, cfg.scale_g)
        self.d = Side(Critic(cfg), cfg.lr_d, cfg.scale_d)
        self.g_sched = optim.lr_scheduler.StepLR(self.g.opt, step_size=3, gamma=0.7)
        self.ema = Ema(self.g.net, cfg.ema)
        self.gen = torch.Generator().manual_seed(0)
        self.penalties = []

    @property
    def amp(self):
        return torch.autocast("cpu", dtype=torch.float16)

    def noise(self):
        return torch.randn(self.cfg.batch, self.cfg.z_dim, generator=self.gen)

    def penalty(self, real, fake):
        a = torch.rand(len(real), 1, generator=self.gen)
        mix = (a * real + (1 - a) * fake).requires_grad_(True)
        with self.amp:
            out = self.d.net(mix).sum()
        (scaled,) = torch.autograd.grad(self.d.scaler.scale(out), mix, create_graph=True)
        grad = scaled.float() / self.d.scaler.get_scale()
        return (grad.norm(dim=1) - 1).square().mean()

    def critic_step(self):
        real = ring(self.cfg.batch, self.gen)
        with torch.no_grad(), self.amp:
            fake = self.g.net(self.noise())
        fake = fake.float()
        with self.amp:
            loss = self.d.net(fake).float().mean() - self.d.net(real).float().mean()
        gp = self.penalty(real, fake)
        loss = loss + self.cfg.gp_weight * gp
        if self.d.apply(loss, clip=10.0):
            self.penalties.append(gp.item())
        return loss.item()

    def generator_step(self):
        self.d.net.requires_grad_(False)
        with self.amp:
            loss = -self.d.net(self.g.net(self.noise())).float().mean()
        if self.g.apply(loss):
            self.g_sched.step()
            self.ema.step(self.g.net)
        self.d.net.requires_grad_(True)
        return loss.item()

    def fit(self):
        for it in range(self.cfg.iters):
            d = [self.critic_step() for _ in range(self.cfg.n_critic)]
            g = self.generator_step()
            log.info("%d d=%.4f g=%.4f gp=%s", it, d[-1], g, self.penalties[-1:])

    @torch.no_grad()
    def radius(self):
        z = torch.randn(256, self.cfg.z_dim, generator=torch.Generator().manual_seed(9))
        return self.ema.net(z).norm(dim=1).mean().item()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(0)
    gan = WGAN(Config())
    gan.fit()
    print(
        f"RESULT critic={gan.d.done}+{gan.d.skipped} generator={gan.g.done}+{gan.g.skipped} "
        f"ticks={gan.g_sched.last_epoch} ema={gan.ema.steps} gp={gan.penalties[-1]:.4f} radius={gan.radius():.4f}"
    )
