import torch
from torch import nn

torch.manual_seed(61)
net = nn.Sequential(nn.Linear(5, 10), nn.GELU(), nn.Linear(10, 1))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 20)
stats = {"applied": 0, "dropped": 0}
for i in range(20):
    x = torch.randn(10, 5)
    y = x[:, :1] * 2
    if i == 8:
        y[2] = float("nan")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = net(x)
    opt.zero_grad()
    loss = (out.float() - y).square().mean()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    if torch.isfinite(norm):
        opt.step()
        sched.step()
        stats["applied"] += 1
    else:
        stats["dropped"] += 1
print(f"RESULT applied={stats['applied']} dropped={stats['dropped']} loss={loss.item():.4f}")
