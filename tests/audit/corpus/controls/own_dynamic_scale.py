import torch
from torch import nn


class DynamicScale:
    def __init__(self, start=2.0**20, patience=8):
        self.value, self.patience, self.good = start, patience, 0

    def backward(self, loss):
        (loss * self.value).backward()

    def unscale(self, params):
        ok = True
        for p in params:
            if p.grad is None:
                continue
            p.grad.mul_(1 / self.value)
            ok = ok and bool(torch.isfinite(p.grad).all())
        return ok

    def adjust(self, ok):
        if not ok:
            self.value = max(self.value / 2, 1.0)
            self.good = 0
            return
        self.good += 1
        if self.good == self.patience:
            self.value *= 2
            self.good = 0


torch.manual_seed(7)
model = nn.Sequential(nn.Embedding(15, 8), nn.Flatten(), nn.Linear(24, 15))
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=30)
ls = DynamicScale()
attempts = 0
while sched.last_epoch < 20:
    ids = torch.randint(0, 15, (16, 3))
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(ids), ids[:, 1])
    opt.zero_grad()
    ls.backward(loss)
    ok = ls.unscale(model.parameters())
    if ok:
        opt.step()
        sched.step()
    ls.adjust(ok)
    attempts += 1
print(f"RESULT loss={loss.item():.4f} attempts={attempts} scale={ls.value:.0f}")
