import argparse
import itertools

import torch
from torch import nn


def options(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=12)
    p.add_argument("--critic-steps", type=int, default=2)
    p.add_argument("--bs", type=int, default=16)
    p.add_argument("--z", type=int, default=4)
    p.add_argument("--gp", type=float, default=5.0)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--ema", type=float, default=0.9)
    p.add_argument("--seed", type=int, default=4)
    return p.parse_args(argv)


def block(i, o, norm=True):
    mods = [nn.Linear(i, o)]
    if norm:
        mods.append(nn.LayerNorm(o))
    return nn.Sequential(*mods, nn.SiLU())


class Generator(nn.Module):
    def __init__(self, z, width=16, out=5):
        super().__init__()
        self.body = nn.Sequential(block(z, width), block(width, width))
        self.out = nn.Linear(width, out)

    def forward(self, z):
        return self.out(self.body(z)).float()


class Critic(nn.Module):
    def __init__(self, d=5, width=16):
        super().__init__()
        self.body = nn.Sequential(block(d, width, norm=False), block(width, width, norm=False), nn.Linear(width, 1))

    def forward(self, x):
        return self.body(x).float().squeeze(-1)


class Average:
    def __init__(self, module, decay):
        self.decay = decay
        self.shadow = [p.detach().clone() for p in module.parameters()]
        self.count = 0

    def __call__(self, module):
        self.count += 1
        d = min(self.decay, self.count / (self.count + 3))
        torch._foreach_lerp_(self.shadow, [p.detach() for p in module.parameters()], 1 - d)


def reals(bs, seed):
    g = torch.Generator().manual_seed(seed)
    mix = torch.randn(5, 5, generator=g) / 2
    while True:
        yield torch.randn(bs, 5, generator=g) @ mix + 1


def gradient_penalty(critic, real, fake, scaler):
    t = torch.rand(len(real), 1)
    x = torch.lerp(real, fake, t).requires_grad_()
    with torch.autocast("cpu", dtype=torch.float16):
        score = critic(x)
    (scaled,) = torch.autograd.grad(scaler.scale(score.sum()), x, create_graph=True)
    grad = scaled / scaler.get_scale()
    return (grad.float().norm(dim=1) - 1).square().mean()


def took(scaler, *optimizers):
    before = scaler.get_scale()
    for o in optimizers:
        scaler.step(o)
    scaler.update()
    return scaler.get_scale() >= before


def main():
    o = options()
    torch.manual_seed(o.seed)
    gen, critic = Generator(o.z), Critic()
    og = torch.optim.Adam(gen.parameters(), lr=o.lr, betas=(0.0, 0.9))
    oc = torch.optim.Adam(critic.parameters(), lr=o.lr, betas=(0.0, 0.9))
    amp_g = torch.amp.GradScaler("cpu", init_scale=2.0**14)
    amp_c = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=20)
    average = Average(gen, o.ema)
    source = reals(o.bs, o.seed)
    n = {"c": 0, "g": 0}
    w = gp = 0.0
    for _ in range(o.iters):
        for real in itertools.islice(source, o.critic_steps):
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
                fake = gen(torch.randn(o.bs, o.z))
            oc.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                gap = critic(fake).mean() - critic(real).mean()
            penalty = gradient_penalty(critic, real, fake, amp_c)
            amp_c.scale(gap + o.gp * penalty).backward()
            if took(amp_c, oc):
                n["c"] += 1
                w, gp = -gap.item(), penalty.item()
        for p in critic.parameters():
            p.requires_grad_(False)
        og.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = -critic(gen(torch.randn(o.bs, o.z))).mean()
        amp_g.scale(loss).backward()
        amp_g.unscale_(og)
        nn.utils.clip_grad_norm_(gen.parameters(), 10.0)
        if took(amp_g, og):
            n["g"] += 1
            average(gen)
        for p in critic.parameters():
            p.requires_grad_(True)
    drift = sum((s - p.detach()).abs().sum().item() for s, p in zip(average.shadow, gen.parameters()))
    print(f"RESULT critic={n['c']} gen={n['g']} averaged={average.count} w={w:.4f} gp={gp:.4f} drift={drift:.3f}")


if __name__ == "__main__":
    main()
