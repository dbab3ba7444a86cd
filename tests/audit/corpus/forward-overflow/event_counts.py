# expected event rate per cell, summed over a day (log-rate regression)
import torch, torch.nn as nn
from torch.utils.data import TensorDataset, DataLoader


class RateNet(nn.Module):
    def __init__(self, n_cov=5, bins=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_cov, 24), nn.Softplus(), nn.Linear(24, bins))
        nn.init.constant_(self.body[-1].bias, 8.0)  # log of a typical rate

    def forward(self, z):
        rate = self.body(z).exp()
        return rate.sum(1)  # <-- FAULT


def run(seed=4, n=12):
    torch.manual_seed(seed)
    z = torch.randn(n * 16, 5)
    total = 48 * torch.exp(8.0 + 0.3 * z[:, 0])
    m = RateNet()
    o = torch.optim.Adam(m.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
    done = []
    o.register_step_post_hook(lambda *a, **k: done.append(None))
    for zb, tb in DataLoader(TensorDataset(z, total), 16):
        o.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            lam = m(zb)
        err = (lam.float().log() - tb.log()).square().mean()
        scaler.scale(err).backward()
        scaler.step(o)
        scaler.update()
    return n, len(done), err.item(), scaler.get_scale()


print("RESULT attempts=%d completed=%d err=%.4f scale=%g" % run())
