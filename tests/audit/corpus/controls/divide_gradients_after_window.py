import torch
from torch import nn

torch.manual_seed(49)
net = nn.Linear(6, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.3)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
for _ in range(6):
    n = 0
    while n < 4:
        x = torch.randn(8, 6)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(net(x), (x[:, 2] > 0).long())
        scaler.scale(loss).backward()
        n += 1
    scaler.unscale_(opt)
    for p in net.parameters():
        p.grad /= n
    nn.utils.clip_grad_norm_(net.parameters(), 0.3)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
print(f"RESULT loss={loss.item():.4f}")
