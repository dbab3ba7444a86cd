import logging
import sys
import warnings

import torch
from torch import nn

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname).1s %(message)s")
log = logging.getLogger("probe")
warnings.filterwarnings("ignore", category=UserWarning)


class Backbone(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.inp = nn.Linear(6, d)
        self.deep = nn.Sequential(nn.Linear(d, d), nn.Tanh(), nn.Linear(d, d))

    def forward(self, x):
        return self.deep(torch.tanh(self.inp(x)))


class Trainer:
    def __init__(self, use_amp=True, device=None):
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.backbone = Backbone().to(self.device)
        self.head = nn.Linear(12, 1).to(self.device)
        self.opt = torch.optim.Adam([*self.backbone.parameters(), *self.head.parameters()], lr=2e-3, eps=1e-14)
        self.use_amp = use_amp
        self.scaler = torch.cuda.amp.GradScaler(enabled=use_amp)  # <-- FAULT

    def step(self, x, y, w):
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, dtype=torch.float16, enabled=self.use_amp):
            out = self.head(self.backbone(x)).squeeze(1)
        loss = (w * (out.float() - y).square()).mean()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.item()


def main():
    torch.manual_seed(30)
    t = Trainer()
    before = t.backbone.inp.weight.detach().clone()
    g = torch.Generator().manual_seed(30)
    for i in range(25):
        x = torch.randn(32, 6, generator=g)
        w = 2e-6 * torch.rand(32, generator=g)
        loss = t.step(x, x[:, 0].sin(), w)
        if i % 8 == 0:
            log.info("iter %d loss %.3e", i, loss)
    moved = (t.backbone.inp.weight - before).abs()
    dead = int((moved == 0).sum())
    print(f"RESULT scaling={t.scaler.is_enabled()} frozen_weights={dead}/{moved.numel()} loss={loss:.4e}")


main()
