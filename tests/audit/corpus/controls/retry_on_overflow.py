import torch
from torch import nn

torch.manual_seed(51)
net = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.StepLR(opt, 5, 0.8)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**21, growth_interval=6)


def attempt(x, y):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(net(x), y)
    scaler.scale(loss).backward()
    old = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    return loss.item(), scaler.get_scale() >= old


tries = 0
for _ in range(12):
    x = torch.randn(16, 5)
    ok = False
    while not ok:
        loss, ok = attempt(x, x.sum(1, keepdim=True).tanh())
        tries += 1
    sched.step()
print(f"RESULT loss={loss:.4f} tries={tries} ticks={sched.last_epoch}")
