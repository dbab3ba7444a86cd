import torch
from torch import nn

torch.manual_seed(45)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
fast = torch.compile(net, backend="eager")
opt = torch.optim.SGD(net.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
for _ in range(10):
    x = torch.randn(16, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(fast(x), x[:, :1])
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(fast.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
print(f"RESULT loss={loss.item():.4f}")
