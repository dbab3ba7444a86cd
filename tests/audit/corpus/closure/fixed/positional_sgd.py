import torch
from torch import nn

torch.manual_seed(0)
X = torch.linspace(-2, 2, 48).unsqueeze(1)
Y = torch.sin(2 * X)
net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)


def evaluate():
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(net(X), Y)
    scaler.scale(loss).backward()
    return loss


history = []
for it in range(20):
    history.append(evaluate().item())
    scaler.step(opt)
    scaler.update()
biggest = max(p.abs().max().item() for p in net.parameters())
print(f"RESULT it={it + 1} loss={history[-1]:.4f} largest_weight={biggest:.3g}")
