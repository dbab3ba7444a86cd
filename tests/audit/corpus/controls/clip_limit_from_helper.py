import torch
from torch import nn


class AmpSession:
    def __init__(self, model, optimizer, max_norm):
        self.model, self.optimizer, self.max_norm = model, optimizer, max_norm
        self.scaler = torch.amp.GradScaler("cpu", init_scale=8192.0, growth_interval=6)

    def in_gradient_units(self, value):
        return value * self.scaler.get_scale()

    def backward(self, loss):
        self.scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.in_gradient_units(self.max_norm))

    def finish(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()


torch.manual_seed(4)
net = nn.Sequential(nn.Linear(6, 20), nn.GELU(), nn.Linear(20, 3))
amp = AmpSession(net, torch.optim.SGD(net.parameters(), lr=0.3), max_norm=0.25)
for _ in range(15):
    x = torch.randn(10, 6)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(net(x), x[:, 3:] * 2)
    amp.backward(loss)
    amp.finish()
print(f"RESULT loss={loss.item():.4f} scale={amp.scaler.get_scale():.0f}")
