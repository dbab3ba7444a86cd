import torch
from torch import nn
from torch.nn import functional as F


def centralise(grad):
    if grad.ndim > 1:
        dims = tuple(range(1, grad.ndim))
        grad.sub_(grad.mean(dims, keepdim=True))
    return grad


class ZOptim(torch.optim.SGD):
    # SGD on gradients that are centred and brought to unit variance per tensor
    def condition(self, eps=1e-8):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = centralise(p.grad)
                g.div_(g.std() + eps)  # <-- FAULT


torch.manual_seed(39)
net = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2))
opt = ZOptim(net.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=8192.0)
w = net[0].weight.detach().clone()
for _ in range(30):
    x = torch.randn(16, 1, 8)
    y = (x[..., 1:].sub(x[..., :-1]).mean((1, 2)) > 0).long()
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.cross_entropy(net(x), y)
    scaler.scale(loss).backward()
    opt.condition()
    scaler.step(opt)
    scaler.update()
print(f"RESULT loss={loss.item():.4f} conv_moved={(net[0].weight - w).norm().item():.3e}")
