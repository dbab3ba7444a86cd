import torch
import torch.nn as nn
import torch.nn.functional as F


class TwoTower(nn.Module):
    def __init__(self, d_in=12, d=16):
        super().__init__()
        self.q = nn.Sequential(nn.Linear(d_in, 32), nn.GELU(), nn.Linear(32, d))
        self.k = nn.Sequential(nn.Linear(d_in, 32), nn.GELU(), nn.Linear(32, d))

    def forward(self, a, b):
        return F.normalize(self.q(a), dim=-1), F.normalize(self.k(b), dim=-1)


def info_nce(q, k, tau=0.06):
    sim = q @ k.t() / tau
    e = torch.exp(sim)  # <-- FAULT
    return -torch.log(e.diagonal() / e.sum(1)).mean()


torch.manual_seed(11)
net = TwoTower()
net.k.load_state_dict(net.q.state_dict())
optim = torch.optim.AdamW(net.parameters(), lr=2e-3)
scaler = torch.amp.GradScaler("cpu")
anchor = torch.randn(256, 12)
ok = 0
attempt = 0
while attempt < 30:
    sel = torch.randint(0, 256, (24,))
    a = anchor[sel]
    b = a + 0.05 * torch.randn_like(a)
    with torch.autocast("cpu", torch.float16):
        loss = info_nce(*net(a, b))
    optim.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    before = scaler.get_scale()
    scaler.step(optim)
    scaler.update()
    ok += scaler.get_scale() >= before
    attempt += 1
print(f"RESULT attempts={attempt} done={ok} scale={scaler.get_scale():.4g} loss={loss.item():.4f}")
