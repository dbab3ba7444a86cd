import torch
from torch import nn


class Loop:
    def __init__(self, module, lr, total):
        self.module = module
        self.total = total
        self.optimizer = torch.optim.SGD(module.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
        self.hist = []

    def on_batch(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(self.module(x), y)
        return loss

    def run(self):
        for _ in range(self.total):
            x = torch.randn(16, 3, 5)
            loss = self.on_batch(x, x.amax(2))
            self.scaler.scale(loss).backward()  # <-- FAULT
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.hist.append(loss.item())


torch.manual_seed(35)
net = nn.Sequential(nn.Conv1d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3))
loop = Loop(net, 0.05, 40)
loop.run()
print(f"RESULT first={loop.hist[0]:.4f} last={loop.hist[-1]:.4f} scale={loop.scaler.get_scale():g}")
