import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))
opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
warm = torch.optim.lr_scheduler.LinearLR(opt, start_factor=0.1, total_iters=8)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**25)
updates = 0
calls = [0]
opt.register_step_post_hook(lambda *a: calls.__setitem__(0, calls[0] + 1))
for it in range(20):
    x = torch.randn(16, 8)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(net(x), x[:, :1])
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    seen = calls[0]
    scaler.step(opt)
    prev = scaler.get_scale()
    scaler.update()
    skipped = calls[0] == seen
    if not skipped:
        warm.step()  # <-- FAULT
        updates += 1
print("RESULT", updates, warm.last_epoch)
