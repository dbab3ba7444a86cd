import math
from dataclasses import dataclass

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from plate_reader_lib import CurveNet, Plates


@dataclass
class Config:
    epochs: int = 2
    batch: int = 12
    lr: float = 3e-3
    seed: int = 3
    log_every: int = 4


class Fitter:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.net = CurveNet()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=cfg.lr, weight_decay=1e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        self.done = 0
        self.skipped = 0
        self.history = []

    def train_batch(self, x, y):
        kept = [b.clone() for b in self.net.buffers()]
        self.opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            pred = self.net(x)
            loss = F.smooth_l1_loss(pred.float(), y)
        self.scaler.scale(loss).backward()
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        if self.scaler.get_scale() < before:
            self.skipped += 1
            for b, k in zip(self.net.buffers(), kept):
                b.copy_(k)
            return None
        self.done += 1
        return loss.item()

    @torch.no_grad()
    def validate(self, loader):
        self.net.eval()
        total, count = 0.0, 0
        for x, y in loader:
            total += F.l1_loss(self.net(x), y, reduction="sum").item()
            count += y.numel()
        self.net.train()
        return total / count

    def fit(self, train, val):
        for epoch in range(self.cfg.epochs):
            for i, (x, y) in enumerate(train):
                value = self.train_batch(x, y)
                if value is not None and i % self.cfg.log_every == 0:
                    self.history.append(value)
                    print(f"ep {epoch} it {i} loss {value:.4f}")
        return self.validate(val)


def main():
    cfg = Config()
    gen = torch.Generator().manual_seed(cfg.seed)
    train = DataLoader(Plates(96, 0, saturated=(41,)), cfg.batch, shuffle=True, generator=gen, drop_last=True)
    val = DataLoader(Plates(24, 1), 24)
    fitter = Fitter(cfg)
    mae = fitter.fit(train, val)
    print(f"RESULT done={fitter.done} skipped={fitter.skipped} val_mae={mae:.4f} val_ok={math.isfinite(mae)}")


if __name__ == "__main__":
    main()
