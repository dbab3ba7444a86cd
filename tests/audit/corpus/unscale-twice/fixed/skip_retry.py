import torch
from torch import nn

torch.manual_seed(77)
model = nn.Linear(5, 5)
opt = torch.optim.Rprop(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**11)
stats = {"grad_norm": [], "loss": []}


def grads_finite(params):
    return all(torch.isfinite(p.grad).all() for p in params)


it = iter(range(18))
for i in it:
    x = torch.randn(32, 5)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        y_hat = model(x)
    loss = (y_hat.float() - x.cumsum(1)).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    if grads_finite(model.parameters()):
        stats["grad_norm"].append(torch.nn.utils.get_total_norm(p.grad for p in model.parameters()).item())
        stats["loss"].append(loss.item())
    scaler.step(opt)
    scaler.update()
print("RESULT", " ".join(f"{k}={sum(v) / len(v):.4f}" for k, v in stats.items()))
