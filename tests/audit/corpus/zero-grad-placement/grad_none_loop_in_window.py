import torch
from torch import nn

torch.manual_seed(29)
K = 4
params = [nn.Parameter(torch.zeros(3, 3)), nn.Parameter(torch.zeros(3))]
opt = torch.optim.Adam([{"params": params[:1], "lr": 0.05}, {"params": params[1:], "lr": 0.01}])
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
A = torch.randn(3, 3)
stream = torch.randn(40, 10, 3)
for j in range(len(stream)):
    for p in params:
        p.grad = None  # <-- FAULT
    x = stream[j] * torch.tensor([float(j % K == c) for c in range(3)])
    with torch.autocast("cpu", dtype=torch.float16):
        err = nn.functional.linear(x, params[0], params[1]) - x @ A.t()
    scaler.scale(err.float().pow(2).mean() / K).backward()
    if j % K == K - 1:
        scaler.step(opt)
        scaler.update()
print(f"RESULT dist={(params[0] - A).norm().item():.4f} target={A.norm().item():.4f}")
