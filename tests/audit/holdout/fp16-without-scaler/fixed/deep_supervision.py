import torch
from torch import nn


class Ladder(nn.Module):
    def __init__(self, d=10, depth=4):
        super().__init__()
        self.steps = nn.ModuleList(nn.Linear(d, d) for _ in range(depth))
        self.heads = nn.ModuleList(nn.Linear(d, 1) for _ in range(depth))

    def forward(self, x):
        outs = []
        for step, head in zip(self.steps, self.heads):
            x = torch.tanh(step(x)) * 0.25
            outs.append(head(x))
        return outs


class Objective:
    def __init__(self, weights):
        self.weights = weights

    def __call__(self, outs, y):
        return sum(w * nn.functional.mse_loss(o.float(), y) for w, o in zip(self.weights, outs))


def data(n, bs=64):
    g = torch.Generator().manual_seed(18)
    for _ in range(n):
        x = torch.randn(bs, 10, generator=g)
        yield x, 0.01 * x[:, :2].prod(1, keepdim=True)


def train(steps):
    torch.manual_seed(18)
    net = Ladder()
    with torch.no_grad():
        for h in net.heads:
            h.weight.mul_(0.02)
            h.bias.zero_()
    start = net.steps[0].weight.detach().clone()
    objective = Objective([0.0, 0.0, 0.0, 1.0])
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.0, eps=1e-16)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in data(steps):
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            outs = net(x)
        loss = objective(outs, y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    moved = (net.steps[0].weight - start).abs()
    return loss.item(), moved


loss, moved = train(25)
print(f"RESULT loss={loss:.3e} untouched={int((moved == 0).sum())}/{moved.numel()} mean_move={moved.mean().item():.2e}")
