import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

torch.manual_seed(3)
base = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(base.parameters(), lr=0.02)


def ema_fn(avg, cur, n):
    return avg + 0.001 * (cur.to(avg.dtype) - avg)


shadow = AveragedModel(base, avg_fn=ema_fn)
shadow.module.to(dtype=torch.bfloat16)  # <-- FAULT
shadow.update_parameters(base)
ref = [p.detach().float().clone() for p in shadow.module.parameters()]
data = torch.randn(64, 5)
goal = data.abs().sum(1, keepdim=True)
it = iter(range(90))
while next(it, None) is not None:
    optimizer.zero_grad()
    nn.functional.huber_loss(base(data), goal).backward()
    optimizer.step()
    shadow.update_parameters(base)
same = sum(int((a.float() == b).sum()) for a, b in zip(shadow.module.parameters(), ref))
total = sum(b.numel() for b in ref)
print(f"RESULT n_averaged={int(shadow.n_averaged)} frozen={same}/{total}")
