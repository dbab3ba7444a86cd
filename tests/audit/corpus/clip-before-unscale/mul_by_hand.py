import math
import torch
import torch.nn.functional as F

torch.manual_seed(11)

# two layer mlp, raw tensors
W1 = (torch.randn(6, 32) / math.sqrt(6)).requires_grad_()
b1 = torch.zeros(32, requires_grad=True)
W2 = (torch.randn(32, 1) / math.sqrt(32)).requires_grad_()
b2 = torch.zeros(1, requires_grad=True)
params = [W1, b1, W2, b2]
max_norm = 2.0

optim = torch.optim.SGD(params, lr=5e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


def f(x):
    return torch.relu(x @ W1 + b1) @ W2 + b2


Xtr = torch.randn(128, 6)
Ytr = (Xtr[:, :3].sum(1) * 4).unsqueeze(1)

for k in range(25):
    idx = torch.randint(0, 128, (32,))
    for p in params:
        p.grad = None
    with torch.autocast("cpu", dtype=torch.float16):
        L = F.huber_loss(f(Xtr[idx]), Ytr[idx], delta=5.0)
    scaler.scale(L).backward()
    total = 0.0
    for p in params:
        total += p.grad.pow(2).sum().item()
    total = math.sqrt(total)
    if total > max_norm:
        for p in params:
            p.grad.mul_(max_norm / (total + 1e-12))  # <-- FAULT
    scaler.step(optim)
    scaler.update()

with torch.no_grad():
    rmse = (f(Xtr) - Ytr).pow(2).mean().sqrt().item()
print(f"RESULT rmse={rmse:.4f}")
