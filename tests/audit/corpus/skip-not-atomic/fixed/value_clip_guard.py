import torch
from torch import nn
from torch.nn.utils import clip_grad_value_

torch.manual_seed(26)


def finite(params):
    return all(bool(p.grad.isfinite().all()) for p in params)


reg = nn.Linear(7, 1)
params = list(reg.parameters())
opt = torch.optim.AdamW(params, lr=0.05, weight_decay=0.0)
true_w = torch.arange(7.0)[:, None] / 7
rejected = 0
jump = 0.0
for n in range(30):
    x = torch.rand(16, 7) + 0.1
    y = x @ true_w
    if n == 20:
        y += 3e38  # overflowed sensor reading
    with torch.autocast("cpu", dtype=torch.bfloat16):
        p = reg(x)
    loss = (p.float() - y).pow(2).sum() / 16
    opt.zero_grad()
    loss.backward()
    if not finite(params):
        rejected += 1
        continue
    clip_grad_value_(params, 1.0)
    w = reg.weight.detach().clone()
    opt.step()
    if n == 20:
        jump = (reg.weight - w).norm().item()
print(f"RESULT rejected={rejected} jump_on_bad={jump:.4f} adam={int(opt.state[reg.bias]['step'])}")
