import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler


class BasicBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.g1, self.g2 = nn.GroupNorm(2, c), nn.GroupNorm(2, c)

    def forward(self, x):
        return x + self.c2(F.relu(self.g2(self.c1(F.relu(self.g1(x))))))


def resnet(c=6, n=3):
    return nn.Sequential(nn.Conv2d(1, c, 3, stride=2), BasicBlock(c), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, n))


def images(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=g)
    x = torch.randn(n, 1, 9, 9, generator=g) * 0.5
    for k in range(n):
        x[k, 0, :, 3 * y[k] : 3 * y[k] + 2] += 1.5
    return x, y


class Learner:
    def __init__(self, model, max_lr, epochs, steps_per_epoch):
        self.model = model
        self.opt = torch.optim.AdamW(model.parameters(), weight_decay=0.05, eps=1e-7)
        self.sched = lr_scheduler.OneCycleLR(self.opt, max_lr=max_lr, epochs=epochs, steps_per_epoch=steps_per_epoch)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
        self.epochs, self.spe = epochs, steps_per_epoch
        self.lr_trace, self.scales, self.moves = [], [], 0

    def one_batch(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(self.model(x), y)
        self.scaler.scale(loss).backward()
        was = self.model[-1].bias.detach().clone()
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad()
        self.lr_trace.append(self.sched.get_last_lr()[0])
        self.scales.append(before)
        self.moves += not torch.equal(was, self.model[-1].bias)
        if self.sched.last_epoch < self.sched.total_steps:
            self.sched.step()  # <-- FAULT
        return loss.item()

    def fit(self):
        for ep in range(self.epochs):
            self.model.train()
            for k in range(self.spe):
                loss = self.one_batch(*images(12, 100 * ep + k))
            print(f"{ep} {loss:.4f} lr {self.lr_trace[-1]:.2e} acc {self.accuracy():.3f}")
        return loss

    @torch.no_grad()
    def accuracy(self):
        self.model.eval()
        x, y = images(60, 9999)
        return (self.model(x).argmax(1) == y).float().mean().item()


torch.manual_seed(0)
learner = Learner(resnet(), max_lr=0.05, epochs=3, steps_per_epoch=6)
learner.fit()
print(f"RESULT attempts=18 completed={learner.moves} ticks={learner.sched.last_epoch} acc={learner.accuracy():.3f}")
