import torch
from torch import nn

torch.manual_seed(21)
m = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))
opt = torch.optim.AdamW(m.parameters(), lr=1e-2, weight_decay=0.0)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: min(n / 6, 1.0))
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for _ in range(18):
    x = torch.randn(16, 4)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(m(x), x.abs().sum(1, keepdim=True))
    scaler.scale(loss).backward()
    old = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    if scaler.get_scale() >= old:
        sched.step()
print(f"RESULT loss={loss.item():.4f} lr={sched.get_last_lr()[0]:.4f}")
