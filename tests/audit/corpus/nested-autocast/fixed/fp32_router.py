import torch
from torch import nn


class MoE(nn.Module):
    def __init__(self, d=12, n=3):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(d, d) for _ in range(n))
        self.router = nn.Linear(d, n, bias=False)
        self.pre = nn.Linear(d, d)

    @torch.autocast("cpu", enabled=False)
    def route(self, h):
        return self.router(h.to(self.router.weight.dtype)).softmax(-1)

    def forward(self, x):
        h = torch.relu(self.pre(x))
        gate = self.route(h)
        return x + sum(g.unsqueeze(-1) * e(h) for g, e in zip(gate.unbind(-1), self.experts))


torch.manual_seed(10)
net = nn.Sequential(nn.Linear(6, 12), MoE(), nn.Linear(12, 2))
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024)
count = 0
for count in range(1, 11):
    x = torch.randn(20, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), (x[:, 0] > x[:, 1]).long())
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
print(f"RESULT steps={count} loss={loss.item():.4f}")
