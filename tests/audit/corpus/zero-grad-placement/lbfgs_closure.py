import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=5, history_size=5, line_search_fn="strong_wolfe")
t = torch.linspace(0, 3, 40)[:, None]
target = torch.sin(2 * t)


def closure():
    loss = nn.functional.mse_loss(net(t), target)
    loss.backward()  # <-- FAULT
    return loss


for _ in range(6):
    value = opt.step(closure)
print("RESULT", float(value))
