import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Standardize(nn.Module):
    def forward(self, x):
        mu = x.mean(0, keepdim=True)
        var = ((x - mu) ** 2).mean(0, keepdim=True)
        return (x - mu) / torch.sqrt(var + 1e-8)  # <-- FAULT


def build(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(7, 20), nn.ReLU(), Standardize(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 1))


def dead_unit(net):
    with torch.no_grad():
        net[0].weight[3] = 0
        net[0].bias[3] = -1
    return net


net = dead_unit(build(14))
ds = TensorDataset(torch.randn(160, 7), torch.randn(160, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
trace = []
for i, (x, y) in enumerate(DataLoader(ds, 16), 1):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(net(x), y)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    trace.append((i, loss.item(), scaler.get_scale()))
i, l, s = trace[-1]
print(f"RESULT i={i} loss={l:.4f} scale={s}")
