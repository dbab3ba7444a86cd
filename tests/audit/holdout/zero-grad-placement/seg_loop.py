import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Stripes(Dataset):
    def __init__(self, n, size=8):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        g = torch.Generator().manual_seed(k)
        label = k % 2
        base = torch.zeros(self.size, self.size)
        base[:: 2 + label] = 1
        if k % 3 == 0:
            base = base.T
        return (base + 0.2 * torch.randn(self.size, self.size, generator=g)).unsqueeze(0), label


class AverageMeter:
    def __init__(self):
        self.sum, self.n = 0.0, 0

    def update(self, v, n=1):
        self.sum, self.n = self.sum + v * n, self.n + n

    @property
    def avg(self):
        return self.sum / max(self.n, 1)


class Solver:
    def __init__(self, lr=0.05):
        self.model = nn.Sequential(
            nn.Conv2d(1, 6, 3, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(54, 2),
        )
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)

    def forward_backward(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(x)
            loss = self.criterion(logits, y)
        self.scaler.scale(loss).backward()
        return loss.item(), (logits.argmax(1) == y).float().mean().item()

    def optimize(self):
        self.optimizer.zero_grad(set_to_none=False)  # <-- FAULT
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def train(self, loader, epochs):
        for ep in range(epochs):
            losses, top1 = AverageMeter(), AverageMeter()
            tic = time.time()
            for x, y in loader:
                loss, acc = self.forward_backward(x, y)
                self.optimize()
                losses.update(loss, len(x))
                top1.update(acc, len(x))
            print(f"Epoch [{ep}] loss {losses.avg:.3f} top1 {100 * top1.avg:.1f} ({time.time() - tic:.1f}s)")
        return losses.avg, top1.avg


torch.manual_seed(0)
solver = Solver()
w = solver.model[0].weight.detach().clone()
loss, acc = solver.train(DataLoader(Stripes(64), batch_size=16, shuffle=True), epochs=4)
print(f"RESULT loss={loss:.4f} acc={acc:.3f} moved={(solver.model[0].weight - w).norm().item():.3e}")
