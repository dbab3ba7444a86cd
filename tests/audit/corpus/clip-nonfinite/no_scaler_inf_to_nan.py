import torch
from torch import nn

torch.manual_seed(58)
model = nn.Sequential(nn.Linear(4, 10), nn.Softplus(), nn.Linear(10, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
skipped = 0


def get(i):
    x = torch.rand(16, 4)
    y = x.sum(1, keepdim=True)
    if i == 11:
        x[3, 1] = float("inf")  # dead sensor in the recording
    return x, y


for i in range(25):
    x, y = get(i)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pred = model(x)
    loss = nn.functional.l1_loss(pred.float(), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # <-- FAULT
    opt.step()
n_bad = sum((~torch.isfinite(p)).sum().item() for p in model.parameters())
print(f"RESULT nonfinite_weights={n_bad} skipped={skipped} loss={loss.item():.4f}")
