import torch
from torch import nn


class CountingAdam(torch.optim.Adam):
    def __init__(self, *a, **kw):
        super().__init__(*a, **kw)
        self.num_updates = 0

    def step(self, closure=None):
        out = super().step(closure)
        self.num_updates += 1
        return out


def run(max_updates=10):
    torch.manual_seed(31)
    net = nn.Sequential(nn.Linear(8, 24), nn.ELU(), nn.Linear(24, 8))
    opt = CountingAdam(net.parameters(), lr=2e-3, fused=True)
    sched = torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=max_updates, power=2.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**19)
    ticked = 0
    while ticked < max_updates:
        x = torch.randn(32, 8)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = (net(x) - x.flip(1)).pow(2).mean()
        scaler.scale(loss).backward()
        n0 = opt.num_updates
        scaler.step(opt)
        scaler.update()
        if opt.num_updates != n0:
            sched.step()  # <-- FAULT
            ticked += 1
    true_count = {int(s["step"]) for s in opt.state.values()}
    return true_count.pop(), ticked, loss.item()


updates, ticks, loss = run()
print(f"RESULT true_updates={updates} scheduler_ticks={ticks} loss={loss:.4f}")
