import torch
from torch import nn

torch.manual_seed(26)
W = [torch.randn(8, 16) * 0.3, torch.zeros(16), torch.randn(16, 1) * 0.3, torch.zeros(1)]
for w in W:
    w.requires_grad_()
opt = torch.optim.SGD([{"params": W[::2], "weight_decay": 1e-3}, {"params": W[1::2]}], lr=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
ACCUM = 2
for i in range(20):
    x = torch.randn(8, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        y = torch.relu(x @ W[0] + W[1]) @ W[2] + W[3]
        loss = (y - x[:, :1]).pow(2).mean()
    scaler.scale(loss / ACCUM).backward()
    if i % ACCUM:
        scaler.step(opt)
        scaler.update()
        for w in W:
            w.grad = None
print(f"RESULT loss={loss.item():.4f}")
