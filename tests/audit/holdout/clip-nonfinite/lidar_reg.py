import torch
from torch import nn


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 24), nn.ReLU())
        self.reg = nn.Linear(24, 2)

    def forward(self, pts):
        return self.reg(self.mlp(pts).amax(1))


def scans(n, seed):
    g = torch.Generator().manual_seed(seed)
    for k in range(n):
        center = torch.randn(8, 1, 2, generator=g)
        pts = torch.randn(8, 12, 3, generator=g) * 0.3
        pts[..., :2] += center
        if k == 9:
            pts[2, 4, 2] = 1e22  # return without echo, the driver writes a huge range
        yield pts, center.squeeze(1)


def evaluate(model):
    model.eval()
    with torch.no_grad():
        err = torch.cat([(model(p) - c).norm(dim=-1) for p, c in scans(4, seed=50)])
    model.train()
    return err.mean().item()


class Fit:
    def __init__(self, max_norm=1.0):
        self.model = PointNet()
        self.opt = torch.optim.NAdam(self.model.parameters(), lr=0.01)
        self.max_norm = max_norm
        self.updates = self.dropped = 0

    def step(self, pts, target):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = self.model(pts)
        loss = (out.float() - target).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)  # <-- FAULT
        self.opt.step()
        self.updates += 1
        return loss.item(), norm.item()

    def run(self, n):
        for pts, target in scans(n, seed=1):
            loss, norm = self.step(pts, target)
        print(f"last loss {loss:.4f} last norm {norm:.3f}")


torch.manual_seed(12)
fit = Fit()
fit.run(20)
print(f"RESULT updates={fit.updates} dropped={fit.dropped} eval_error={evaluate(fit.model):.4f}")
