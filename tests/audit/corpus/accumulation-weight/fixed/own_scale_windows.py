import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
params = list(net.parameters())
opt = torch.optim.AdamW(params, lr=1e-2)
scale, ACC = 2.0**13, 4
for i in range(24):
    x = torch.randn(8, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long())
    (loss / ACC * scale).backward()
    if (i + 1) % ACC:
        continue
    torch._foreach_div_([p.grad for p in params], scale)
    norm = nn.utils.clip_grad_norm_(params, 1.0)
    if torch.isfinite(norm):
        opt.step()
    else:
        scale /= 2
    opt.zero_grad()
print("RESULT", float(norm), scale)
