import torch
from torch import nn

torch.manual_seed(19)
ACCUM, MAX_NORM = 3, 0.05
enc = nn.Sequential(nn.Linear(6, 12), nn.GroupNorm(3, 12), nn.Mish(), nn.Linear(12, 3))
opt = torch.optim.SGD(enc.parameters(), lr=1.0)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
first = []
for step in range(8):
    w = enc[3].bias.detach().clone()
    for micro in range(ACCUM):
        x = torch.randn(16, 6)
        y = torch.full((16,), micro)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(enc(x), y)
        scaler.scale(loss / ACCUM).backward()
    nn.utils.clip_grad_norm_(enc.parameters(), MAX_NORM * scaler.get_scale())
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
    first.append((enc[3].bias - w).tolist())
tot = torch.tensor(first).sum(0)
print("RESULT class_bias_drift=" + ",".join(f"{v:+.4f}" for v in tot.tolist()))
