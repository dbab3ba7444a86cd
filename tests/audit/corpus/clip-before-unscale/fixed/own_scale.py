import torch
from torch import nn

torch.manual_seed(0)


class LossScale:
    def __init__(self, value=2.0**12, interval=10):
        self.value, self.interval, self.good = value, interval, 0

    def update(self, overflow):
        if overflow:
            self.value /= 2
            self.good = 0
        else:
            self.good += 1
            if self.good % self.interval == 0:
                self.value *= 2


net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
ls = LossScale()
params = list(net.parameters())
for it in range(20):
    x = torch.randn(12, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long())
    opt.zero_grad()
    (loss * ls.value).backward()
    overflow = not all(torch.isfinite(p.grad).all() for p in params)
    if not overflow:
        for p in params:
            p.grad.div_(ls.value)
        nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
    ls.update(overflow)
print("RESULT", loss.item(), ls.value)
