import torch
from torch import nn

torch.manual_seed(52)
MAX_SCALE = 2.0**11
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2, backoff_factor=0.25)
for step in range(1, 25):
    x = torch.randn(8, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), x[:, 3:].argmax(1)) / 2
    scaler.scale(loss).backward()
    if step % 2 == 0:
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        if scaler.get_scale() > MAX_SCALE:
            scaler.update(new_scale=MAX_SCALE)
print(f"RESULT loss={loss.item() * 2:.4f} scale={scaler.get_scale():.0f}")
