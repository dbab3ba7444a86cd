import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.a, self.b = nn.Linear(n_in, 12), nn.Linear(12, 1)

    def forward(self, x):
        return self.b(self.a(x).relu())


class Trainer:
    def __init__(self):
        self.ctr, self.spend = Tower(6), Tower(6)
        self.params = [*self.ctr.parameters(), *self.spend.parameters()]
        self.opt = torch.optim.Adam(self.params, lr=2e-3, amsgrad=True)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)

    def losses(self, x, clicked, spent):
        with torch.autocast("cpu", dtype=torch.float16):
            c, s = self.ctr(x), self.spend(x)
        bce = nn.functional.binary_cross_entropy_with_logits(c.float(), clicked)
        return bce + nn.functional.mse_loss(s.float(), spent)

    def drop_overflowed(self):
        for p in self.params:
            if not p.grad.isfinite().all():
                p.grad = None  # <-- FAULT

    def step(self, *batch):
        self.opt.zero_grad()
        self.scaler.scale(self.losses(*batch)).backward()
        self.drop_overflowed()
        self.scaler.step(self.opt)
        self.scaler.update()

    def count(self, tower):
        return int(self.opt.state[tower.b.weight].get("step", 0))


torch.manual_seed(44)
t = Trainer()
for _ in range(20):
    x = torch.randn(64, 6)
    t.step(x, (x[:, :1] > 0).float(), x.abs().sum(1, keepdim=True) * 40)
print(f"RESULT ctr_steps={t.count(t.ctr)} spend_steps={t.count(t.spend)} scale={t.scaler.get_scale():.0f}")
