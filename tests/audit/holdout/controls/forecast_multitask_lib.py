import torch
from torch import nn


class MultiTask(nn.Module):
    heads = ("point", "sign", "scale")

    def __init__(self, d=3, h=14):
        super().__init__()
        self.inp, self.rec = nn.Linear(d, h), nn.Linear(h, h)
        self.point, self.sign, self.scale = nn.Linear(h, 1), nn.Linear(h, 1), nn.Linear(h, 1)

    def encode(self, x):
        h = x.new_zeros(len(x), self.rec.in_features)
        for t in range(x.size(1)):
            h = torch.tanh(self.inp(x[:, t]) + self.rec(h)).float()
        return h

    def losses(self, x, y):
        h = self.encode(x)
        mean, logit = self.point(h).float().squeeze(1), self.sign(h).float().squeeze(1)
        var = nn.functional.softplus(self.scale(h).float()).squeeze(1) + 1e-2
        return {
            "point": nn.functional.huber_loss(mean, y),
            "sign": nn.functional.binary_cross_entropy_with_logits(logit, (y > 0).float()) * 0.5,
            "scale": nn.functional.gaussian_nll_loss(mean.detach(), y, var) * 0.2,
        }


def series_loader(bs, n, seed, t=6):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        phase = torch.rand(bs, 1, generator=g) * 6.28
        axis = torch.arange(t + 1) * 0.7
        s = torch.sin(axis + phase) + 0.1 * torch.randn(bs, t + 1, generator=g)
        diff = torch.diff(s, prepend=s[:, :1], dim=1)
        x = torch.stack([s, diff, s.cumsum(1) / 4], -1)
        yield x[:, :t], s[:, t]


class Ledger:
    def __init__(self):
        self.attempts = self.completed = self.skipped = self.points_seen = self.points_applied = 0

    def add(self, stepped, points):
        self.attempts += 1
        self.points_seen += points
        if stepped:
            self.completed += 1
            self.points_applied += points
        else:
            self.skipped += 1

    def __str__(self):
        return (
            f"attempts={self.attempts} completed={self.completed} skipped={self.skipped} "
            f"points={self.points_applied}/{self.points_seen}"
        )


class Progress:
    def __init__(self, every):
        self.every, self.n = every, 0

    def show(self, losses, norms, rate):
        self.n += 1
        if self.n % self.every == 0:
            left = " ".join(f"{k}={v:.3f}" for k, v in losses.items())
            right = " ".join(f"{k}:{v:.2f}" for k, v in norms.items())
            print(f"[{self.n}] {left} | {right} | {rate:.0f} points/s")
