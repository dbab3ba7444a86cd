from functools import partial

import torch
from torch import nn

fp32_region = partial(torch.autocast, "cpu", enabled=False)


class Proto(nn.Module):
    def __init__(self, n_class=3):
        super().__init__()
        self.conv = nn.Conv1d(2, 8, 5, padding=2)
        self.centres = nn.Parameter(torch.randn(n_class, 8))

    def forward(self, sig):
        f = torch.tanh(self.conv(sig)).mean(-1).float()
        with fp32_region():
            cross = torch.mm(f, self.centres.t())
            d2 = (f * f).sum(1, keepdim=True) - 2 * cross + (self.centres**2).sum(1)
        return -d2


torch.manual_seed(13)
m = Proto()
o = torch.optim.Adagrad(m.parameters(), lr=0.05)
gs = torch.amp.GradScaler("cpu", init_scale=128.0)
k = 0
while k < 8:
    cls = torch.randint(0, 3, (12,))
    sig = torch.randn(12, 2, 16) + cls[:, None, None]
    with torch.autocast("cpu", dtype=torch.float16):
        neg = m(sig)
    loss = nn.functional.cross_entropy(neg, cls)
    o.zero_grad()
    gs.scale(loss).backward()
    gs.step(o)
    gs.update()
    k += 1
print(f"RESULT k={k} loss={loss.item():.4f}")
