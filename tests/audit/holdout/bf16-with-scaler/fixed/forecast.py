import math
from dataclasses import asdict, dataclass

import torch
from torch import nn


@dataclass
class Hparams:
    precision: str = "bfloat16"
    window: int = 12
    hidden: int = 16
    lr: float = 0.2
    steps: int = 20
    batch: int = 16

    @property
    def dtype(self):
        return getattr(torch, self.precision)


class Forecaster(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.a = nn.Linear(hp.window, hp.hidden)
        self.b = nn.Linear(hp.hidden, 3)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


def series(hp):
    g = torch.Generator().manual_seed(15)
    t = torch.arange(hp.window) / hp.window
    for _ in range(hp.steps):
        kind = torch.randint(0, 3, (hp.batch,), generator=g)
        phase = torch.rand(hp.batch, 1, generator=g)
        x = torch.sin(2 * math.pi * (t * (1 + kind[:, None]) + phase)) + 0.1 * torch.randn(hp.batch, hp.window, generator=g)
        yield x, kind


class Experiment:
    def __init__(self, hp):
        torch.manual_seed(2)
        self.hp = hp
        self.net = Forecaster(hp).to(hp.dtype)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=hp.lr)
        self.scaler = torch.amp.GradScaler("cpu", enabled=hp.dtype == torch.float16)
        self.log = []

    def update(self, x, y):
        loss = nn.functional.cross_entropy(self.net(x.to(self.hp.dtype)).float(), y)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.log.append({"loss": loss.item(), "norm": float(norm)})

    def run(self):
        print(asdict(self.hp))
        for x, y in series(self.hp):
            self.update(x, y)
        return self.log[-1]["loss"]


exp = Experiment(Hparams())
last = exp.run()
print(f"RESULT last_loss={last:.3f} scaling={exp.scaler.is_enabled()} scale={exp.scaler.get_scale():.0f}")
