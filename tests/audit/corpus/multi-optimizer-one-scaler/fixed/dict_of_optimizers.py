import torch
import torch.nn as nn


def build():
    torch.manual_seed(3)
    nets = nn.ModuleDict({"enc": nn.Linear(6, 8), "mid": nn.Linear(8, 8), "dec": nn.Linear(8, 6)})
    opts = {k: torch.optim.SGD(m.parameters(), lr=0.05) for k, m in nets.items()}
    return nets, opts


nets, opts = build()
start = {k: m.weight.detach().clone() for k, m in nets.items()}
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**6, growth_interval=1)
for _ in range(6):
    x = torch.randn(16, 6)
    for o in opts.values():
        o.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        h = torch.relu(nets["enc"](x))
        h = torch.relu(nets["mid"](h))
        loss = (nets["dec"](h) - x).square().mean()
    scaler.scale(loss).backward()
    for o in opts.values():
        scaler.step(o)
    scaler.update()
print("RESULT " + " ".join(f"{k}={(m.weight - start[k]).norm().item():.5f}" for k, m in nets.items()), scaler.get_scale())
