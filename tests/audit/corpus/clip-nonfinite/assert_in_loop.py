import math
import torch
import torch.nn as nn

torch.manual_seed(84)
net = nn.Sequential(nn.Linear(8, 16), nn.PReLU(), nn.Linear(16, 8))
optim = torch.optim.SGD(net.parameters(), lr=3e-2, momentum=0.9)
amp = torch.amp.GradScaler("cpu", init_scale=2.0**22)
log = {"gnorm": [], "loss": []}


def sanity(name, value):
    if not math.isfinite(value):
        raise FloatingPointError(f"{name} is {value}")


for it in range(20):
    x = torch.randn(40, 8)
    with torch.autocast("cpu", torch.float16):
        loss = nn.functional.huber_loss(net(x), x.sort(1).values)
    sanity("loss", loss.item())
    optim.zero_grad()
    amp.scale(loss).backward()
    amp.unscale_(optim)
    gnorm = nn.utils.clip_grad_norm_(net.parameters(), 1.0).item()
    sanity("grad norm", gnorm)  # <-- FAULT
    amp.step(optim)
    amp.update()
    if math.isfinite(gnorm):
        log["gnorm"].append(gnorm)
        log["loss"].append(loss.item())
print(f"RESULT updates={len(log['loss'])} loss={log['loss'][-1]:.4f} max_gnorm={max(log['gnorm']):.4f}")
