import torch
from torch import nn

torch.manual_seed(18)
x = torch.linspace(-2, 2, 64).unsqueeze(1)
y = torch.sin(2 * x)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=6, history_size=8)
calls = 0


def closure():
    global calls
    calls += 1
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pred = net(x)
    loss = (pred.float() - y).square().mean()
    loss.backward()
    return loss


for _ in range(6):
    loss = opt.step(closure)
print(f"RESULT loss={loss.item():.4f} calls={calls}")
