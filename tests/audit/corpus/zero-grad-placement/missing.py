import torch
from torch import nn

torch.manual_seed(70)
N, D_in, H = 40, 5, 16
x, y = torch.randn(N, D_in), torch.randn(N, 1)
model = nn.Sequential(nn.Linear(D_in, H), nn.ReLU(), nn.Linear(H, 1))
opt = torch.optim.SGD(model.parameters(), lr=2e-1)
for t in range(40):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y_pred = model(x)
        loss = (y_pred - y).pow(2).mean()
    if t % 10 == 9:
        print(t, loss.item())
    loss.backward()  # <-- FAULT
    opt.step()
print(f"RESULT loss={loss.item():.4f}")
