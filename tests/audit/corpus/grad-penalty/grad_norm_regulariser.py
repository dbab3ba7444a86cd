import torch
from torch import nn

torch.manual_seed(57)
lam = 0.5
model = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 2))
ps = list(model.parameters())
opt = torch.optim.SGD(ps, lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=32.0)
pen_log = []
for n in range(20):
    x = torch.randn(24, 5)
    y = (x[:, 0] * x[:, 1] > 0).long()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    grads = torch.autograd.grad(scaler.scale(loss), ps, create_graph=True)
    reg = sum(g.float().square().sum() for g in grads)  # <-- FAULT
    pen_log.append(reg.item())
    opt.zero_grad()
    scaler.scale(loss + lam * reg).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(ps, 5.0)
    scaler.step(opt)
    scaler.update()
print(f"RESULT penalty={pen_log[0]:.4g}..{pen_log[-1]:.4g} loss={loss.item():.4f}")
