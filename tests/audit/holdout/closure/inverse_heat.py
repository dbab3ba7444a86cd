import torch
from torch import nn


class Field(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
        self.log_k = nn.Parameter(torch.tensor(0.0))

    def forward(self, xt):
        return self.net(xt)


class Problem:
    def __init__(self, n=64, seed=10):
        g = torch.Generator().manual_seed(seed)
        self.xt = torch.rand(n, 2, generator=g)
        self.u = torch.exp(-self.xt[:, 1:]) * torch.sin(3.0 * self.xt[:, :1])

    def misfit(self, model):
        with torch.autocast("cpu", dtype=torch.float16):
            pred = model(self.xt)
        return nn.functional.mse_loss(pred.float(), self.u) + 1e-3 * (model.log_k - 0.5).square()


def solve(steps=30, lr=0.05, momentum=0.8):
    torch.manual_seed(10)
    model, problem = Field(), Problem()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
    trace = []

    def closure():
        optimizer.zero_grad()
        loss = problem.misfit(model)
        scaler.scale(loss).backward()
        return loss

    for k in range(steps):
        trace.append(closure().item())
        scaler.step(optimizer, closure)  # <-- FAULT
        scaler.update()
    with torch.no_grad():
        final = problem.misfit(model).item()
        size = max(p.abs().max().item() for p in model.parameters())
    return trace, final, size


trace, final, size = solve()
print(f"RESULT start={trace[0]:.4f} final={final:.4g} largest_weight={size:.3g}")
