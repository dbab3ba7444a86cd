import torch
from torch import nn

torch.manual_seed(10)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.o = nn.Linear(8, 1)

    def forward(self, x):
        a = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 8**0.5, -1)
        return self.o((a @ self.v(x)).mean(1))


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18)
losses = []
for i in range(20):
    x = torch.randn(8, 5, 8)
    y = x.mean((1, 2)).unsqueeze(1) * 40
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(net(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(net.parameters(), 1.0)
    optimizer.step()  # <-- FAULT
    scaler.update()
    losses.append(loss.item())
ok = all(torch.isfinite(p).all().item() for p in net.parameters())
print(f"RESULT weights_finite={ok} last={losses[-1]:.4f}")
