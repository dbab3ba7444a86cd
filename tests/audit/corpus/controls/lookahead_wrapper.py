import torch
from torch import nn


class Lookahead:
    def __init__(self, inner, k=5, alpha=0.5):
        self.inner, self.k, self.alpha, self.n = inner, k, alpha, 0
        self.params = [p for g in inner.param_groups for p in g["params"]]
        self.slow = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def after(self):
        self.n += 1
        if self.n % self.k == 0:
            for s, p in zip(self.slow, self.params, strict=True):
                s.lerp_(p, self.alpha)
                p.copy_(s)


torch.manual_seed(56)
net = nn.Sequential(nn.Linear(5, 14), nn.ReLU(), nn.Linear(14, 1))
inner = torch.optim.RAdam(net.parameters(), lr=1e-2)
look = Lookahead(inner)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**19)
for _ in range(30):
    x = torch.randn(12, 5)
    inner.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.smooth_l1_loss(net(x), x.median(1, keepdim=True).values)
    scaler.scale(loss).backward()
    s = scaler.get_scale()
    scaler.step(inner)
    scaler.update()
    if scaler.get_scale() >= s:
        look.after()
print(f"RESULT loss={loss.item():.4f} applied={look.n}")
