import torch
from torch import nn

torch.manual_seed(18)
n_users, n_items, k, reg = 12, 15, 6, 0.5
P, Q = nn.Embedding(n_users, k), nn.Embedding(n_items, k)
proj = nn.Linear(k, k, bias=False)
params = [*P.parameters(), *Q.parameters(), *proj.parameters()]
opt = torch.optim.SGD(params, lr=0.3)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
R = torch.randn(n_users, n_items)

for sweep in range(30):
    u, i = torch.randint(0, n_users, (60,)), torch.randint(0, n_items, (60,))
    with torch.autocast("cpu", dtype=torch.float16):
        pred = (proj(P(u)) * Q(i)).sum(-1)
        fit = nn.functional.mse_loss(pred.float(), R[u, i])
    l2 = P(u).pow(2).sum(1).mean() + Q(i).pow(2).sum(1).mean()
    opt.zero_grad()
    (scaler.scale(fit) + reg * l2).backward()  # <-- FAULT
    scaler.step(opt)
    scaler.update()
print(f"RESULT fit={fit.item():.4f} l2={l2.item():.4f}")
