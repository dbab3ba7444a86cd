import copy

import torch
from torch import nn

BETA = 0.95


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(10, 12)
        self.inp = nn.Linear(4, 12)
        self.out = nn.Linear(12, 4)

    def forward(self, x, t):
        return self.out(torch.nn.functional.mish(self.inp(x) + self.time(t)))


def q_sample(x0, t, noise):
    a = (1 - t.float() / 10)[:, None]
    return a.sqrt() * x0 + (1 - a).sqrt() * noise


@torch.no_grad()
def ema_(target, source, beta):
    for e, p in zip(target.parameters(), source.parameters()):
        e.lerp_(p, 1 - beta)


def debiased(avg, updates):
    return [e / (1 - BETA**updates) for e in avg.parameters()]


torch.manual_seed(40)
eps_model = Denoiser()
avg = copy.deepcopy(eps_model).requires_grad_(False)
for p in avg.parameters():
    p.zero_()
opt = torch.optim.AdamW(eps_model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
ema_updates = 0
for _ in range(18):
    x0, t, noise = torch.randn(32, 4), torch.randint(0, 10, (32,)), torch.randn(32, 4)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        pred = eps_model(q_sample(x0, t, noise), t)
        loss = (pred - noise).pow(2).mean()
    scaler.scale(loss).backward()
    prior = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    if not scaler.get_scale() < prior:
        ema_(avg, eps_model, BETA)
        ema_updates += 1

gap = sum((a - p).abs().sum() for a, p in zip(debiased(avg, ema_updates), eps_model.parameters())).item()
steps = int(opt.state[eps_model.out.weight]["step"])
print(f"RESULT ema_updates={ema_updates} optimizer_steps={steps} gap_to_model={gap:.4f}")
