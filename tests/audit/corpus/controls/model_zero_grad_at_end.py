import torch
from torch import nn


class Runner:
    micro = 3

    def __init__(self):
        torch.manual_seed(27)
        self.model = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 2))
        self.optimizer = torch.optim.Adamax(self.model.parameters(), lr=5e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
        self.pending = 0
        self.model.zero_grad()

    def feed(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(self.model(x), y).div(self.micro)
        self.scaler.scale(loss).backward()
        self.pending += 1
        if self.pending == self.micro:
            self._apply()
        return loss.item() * self.micro

    def _apply(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.model.zero_grad(set_to_none=False)
        self.pending = 0


r = Runner()
for _ in range(18):
    x = torch.randn(8, 5)
    last = r.feed(x, (x[:, 1] > 0).long())
print(f"RESULT loss={last:.4f} pending={r.pending}")
