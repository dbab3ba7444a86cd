import torch
from torch import nn


class InfoNCE(nn.Module):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.t = temperature

    def forward(self, a, b):
        with torch.autocast("cpu", enabled=False):
            dots = a @ b.t()  # <-- FAULT
            cosine = dots / torch.outer(a.float().norm(dim=1), b.float().norm(dim=1))
            labels = torch.arange(len(a))
            return nn.functional.cross_entropy(cosine / self.t, labels)


class Backbone(nn.Module):
    def __init__(self, width=8, out=48):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, width, 3), nn.ReLU())
        self.norm = nn.LayerNorm(width)
        self.proj = nn.Linear(width, out)
        nn.init.normal_(self.proj.weight, std=25.0)

    def forward(self, x):
        return self.proj(self.norm(self.features(x).mean((2, 3))))


def views(x, g):
    flip = x.flip(3) if torch.rand((), generator=g) < 0.5 else x
    return flip + 0.1 * torch.randn(x.shape, generator=g), x + 0.1 * torch.randn(x.shape, generator=g)


class PreTrainer:
    def __init__(self, steps=20):
        torch.manual_seed(0)
        self.net = Backbone()
        self.loss = InfoNCE()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        self.steps = steps
        self.ok = 0

    def fit(self):
        g = torch.Generator().manual_seed(1)
        last = float("nan")
        for _ in range(self.steps):
            x = torch.randn(6, 1, 6, 6, generator=g)
            with torch.autocast("cpu", dtype=torch.float16):
                a, b = (self.net(v) for v in views(x, g))
                loss = self.loss(a, b)
            self.opt.zero_grad()
            self.scaler.scale(loss).backward()
            was = self.scaler.get_scale()
            self.scaler.step(self.opt)
            self.scaler.update()
            if self.scaler.get_scale() >= was:
                self.ok += 1
                last = loss.item()
        return last


t = PreTrainer()
last = t.fit()
print(f"RESULT ok={t.ok}/{t.steps} last={last:.1f} scale={t.scaler.get_scale():g}")
