import torch
from torch import nn


class SharpOptimizer(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kw):
        super().__init__(params, dict(rho=rho, **kw))
        self.base_optimizer = base(self.param_groups, **kw)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        g = torch.stack([p.grad.norm() for gr in self.param_groups for p in gr["params"] if p.grad is not None]).norm()
        for gr in self.param_groups:
            for p in gr["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad, alpha=float(gr["rho"] / (g + 1e-12)))
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for gr in self.param_groups:
            for p in gr["params"]:
                if p.grad is not None:
                    p.data = self.state[p]["old"]
        self.base_optimizer.step()
        if zero_grad:
            self.zero_grad()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Linear(24, 2))
opt = SharpOptimizer(model.parameters(), torch.optim.SGD, rho=0.1, lr=0.1)
crit = nn.CrossEntropyLoss(label_smoothing=0.1)
for epoch in range(2):
    for _ in range(5):
        x = torch.randn(12, 6)
        y = (x.sum(1) > 0).long()
        loss = crit(model(x), y)
        loss.backward()
        opt.first_step()
        crit(model(x), y).backward()  # <-- FAULT
        opt.second_step(zero_grad=True)
print("RESULT", loss.item())
