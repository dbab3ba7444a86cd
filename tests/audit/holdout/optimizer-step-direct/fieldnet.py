import logging
from dataclasses import dataclass, field

import torch
from torch import nn

log = logging.getLogger("fieldnet")


@dataclass
class TrainConfig:
    iters: int = 30
    rays: int = 32
    lr: float = 1e-2
    use_amp: bool = True
    weight_decay: float = 0.01
    eval_every: int = 10
    freqs: list = field(default_factory=lambda: [1.0, 2.0, 4.0])


class FieldNet(nn.Module):
    def __init__(self, freqs):
        super().__init__()
        self.register_buffer("freqs", torch.tensor(freqs))
        self.net = nn.Sequential(nn.Linear(2 + 4 * len(freqs), 32), nn.Softplus(), nn.Linear(32, 3))

    def forward(self, xy):
        ang = (xy.unsqueeze(-1) * self.freqs).flatten(1)
        return torch.sigmoid(self.net(torch.cat([xy, ang.sin(), ang.cos()], -1)))


def pixel(xy):
    r = xy.norm(dim=-1, keepdim=True)
    return torch.cat([torch.sin(3 * r), r, 1 - r], -1).clamp(0, 1)


class Trainer:
    def __init__(self, cfg: TrainConfig):
        self.cfg = cfg
        self.model = FieldNet(cfg.freqs)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
        self.scaler = torch.amp.GradScaler("cpu", enabled=cfg.use_amp)
        self.gen = torch.Generator().manual_seed(21)
        self.psnr = []

    def sample(self):
        xy = torch.rand(self.cfg.rays, 2, generator=self.gen)
        return xy, pixel(xy)

    def step(self):
        xy, rgb = self.sample()
        with torch.autocast("cpu", dtype=torch.float16, enabled=self.cfg.use_amp):
            pred = self.model(xy)
            loss = nn.functional.smooth_l1_loss(pred.float(), rgb)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.opt.step()  # <-- FAULT
        return loss

    @torch.no_grad()
    def evaluate(self):
        xy = torch.rand(256, 2, generator=torch.Generator().manual_seed(0))
        mse = nn.functional.mse_loss(self.model(xy), pixel(xy))
        self.psnr.append(-10 * torch.log10(mse).item())

    def fit(self):
        for it in range(1, self.cfg.iters + 1):
            loss = self.step()
            if it % self.cfg.eval_every == 0:
                self.evaluate()
                log.info("it %d loss %.4f psnr %.2f", it, loss.item(), self.psnr[-1])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    torch.manual_seed(0)
    tr = Trainer(TrainConfig())
    tr.fit()
    v = max(s["exp_avg_sq"].max().item() for s in tr.opt.state.values())
    print(f"RESULT psnr={tr.psnr[-1]:.3f} second_moment={v:.3e}")
