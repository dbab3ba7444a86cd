import torch
from torch import nn

torch.manual_seed(25)


def endless(n):
    while True:
        x = torch.randn(n, 6)
        yield x, x.mean(1, keepdim=True) ** 2


TOTAL = 24
net = nn.Sequential(nn.Linear(6, 12), nn.Mish(), nn.Linear(12, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
one = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=TOTAL)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**25)
done = []
opt.register_step_post_hook(lambda *_: done.append(True))
for x, y in endless(16):
    had = len(done)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(net(x), y)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
    if len(done) > had:
        one.step()
    if len(done) == TOTAL:
        break
print(f"RESULT loss={loss.item():.5f} ticks={one.last_epoch}")
