import torch
from torch import nn


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kw):
        super().__init__(params, dict(rho=rho, **kw))
        self.base = base(self.param_groups, **kw)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def ascend(self):
        ps = [p for g in self.param_groups for p in g["params"] if p.grad is not None]
        norm = torch.stack([p.grad.norm() for p in ps]).norm() + 1e-12
        for p in ps:
            e = p.grad * (self.param_groups[0]["rho"] / norm)
            self.state[p]["e"] = e
            p.add_(e)

    @torch.no_grad()
    def descend(self):
        for g in self.param_groups:
            for p in g["params"]:
                if "e" in self.state[p]:
                    p.sub_(self.state[p]["e"])
        self.base.step()

    def step(self, closure=None):
        self.ascend()
        self.zero_grad()
        with torch.enable_grad():
            closure()
        self.descend()


torch.manual_seed(17)
net = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2))
sam = SAM(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
for _ in range(15):
    x = torch.randn(32, 10)
    y = (x.sum(1) > 0).long()

    def closure():
        out = nn.functional.cross_entropy(net(x), y)
        out.backward()
        return out

    loss = closure()
    sam.step(closure)
    sam.zero_grad()
print(f"RESULT loss={loss.item():.4f}")
