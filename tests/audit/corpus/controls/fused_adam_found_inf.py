import torch
from torch import nn

torch.manual_seed(59)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
opt = torch.optim.AdamW(net.parameters(), lr=5e-3, fused=True)
sched = torch.optim.lr_scheduler.LinearLR(opt, 1.0, 0.1, 20)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**22)
completed = 0
for _ in range(24):
    x = torch.randn(16, 6)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(net(x), x[:, :1].exp().clamp(max=3))
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    bad = any(not p.grad.isfinite().all() for p in net.parameters())
    scaler.step(opt)
    scaler.update()
    if not bad:
        completed += 1
        sched.step()
print(f"RESULT completed={completed} ticks={sched.last_epoch} loss={loss.item():.4f}")
