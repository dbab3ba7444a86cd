import torch
from torch import nn

torch.manual_seed(30)
layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])
groups = [{"params": l.parameters(), "lr": 0.1 * 0.7 ** (3 - i), "name": f"l{i}"} for i, l in enumerate(layers)]
opt = torch.optim.SGD(groups, momentum=0.8)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
for _ in range(12):
    x = torch.randn(16, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        h = x
        for layer in layers:
            h = h + torch.tanh(layer(h))
        loss = nn.functional.mse_loss(h.float(), x.flip(1))
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    for grp in opt.param_groups:
        nn.utils.clip_grad_norm_(grp["params"], 0.5)
    scaler.step(opt)
    scaler.update()
print(f"RESULT loss={loss.item():.4f}")
