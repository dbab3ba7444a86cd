import torch
from torch import nn

torch.manual_seed(55)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
opts = {p: torch.optim.SGD([p], lr=0.1, momentum=0.9) for p in net.parameters()}


def hook(p):
    opts[p].step()
    opts[p].zero_grad()


for p in opts:
    p.register_post_accumulate_grad_hook(hook)
for _ in range(20):
    x = torch.randn(16, 6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = net(x)
    loss = nn.functional.cross_entropy(z.float(), (x[:, 0] + x[:, 1] > 0).long())
    loss.backward()
print(f"RESULT loss={loss.item():.4f}")
