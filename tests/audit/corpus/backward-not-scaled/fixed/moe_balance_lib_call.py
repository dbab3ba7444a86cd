import torch
from torch import nn
import moe_balance_lib_call_lib as moe

torch.manual_seed(14)
layer = moe.TinyMoE(d=8, experts=4)
head = nn.Linear(8, 3)
opt = torch.optim.SGD([{"params": layer.parameters()}, {"params": head.parameters(), "lr": 0.1}], lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**13)
for step in range(40):
    x = torch.randn(48, 8) + 1.5
    y = x[:, :3].argmax(1)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        h, gates = layer(x)
        ce = nn.functional.cross_entropy(head(h), y)
    scaler.scale(ce).backward(retain_graph=True)
    moe.balance_backward(gates, weight=1.0, scaler=scaler)
    scaler.step(opt)
    scaler.update()
load = gates.float().mean(0)
print(f"RESULT ce={ce.item():.3f} load_spread={(load.max() - load.min()).item():.3f}")
