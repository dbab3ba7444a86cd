import torch
from torch import nn

torch.manual_seed(39)


class KernelHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(6, 6)
        self.centres = nn.Parameter(torch.randn(4, 6))
        self.w = nn.Linear(4, 1)

    def forward(self, x):
        z = self.proj(x)
        with torch.autocast("cpu", enabled=False):
            d2 = (z.float().unsqueeze(1) - self.centres).square().sum(-1)
            k = torch.exp(-0.5 * d2)
        return self.w(k)


net = KernelHead()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**9)


@torch.autocast("cpu", enabled=False)
def criterion(p, t):
    return nn.functional.binary_cross_entropy(torch.sigmoid(p.float()), t)


for _ in range(12):
    x = torch.randn(16, 6)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = criterion(net(x), (x.norm(dim=1, keepdim=True) < 2.2).float())
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
print(f"RESULT loss={loss.item():.4f}")
