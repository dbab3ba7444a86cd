import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import OneCycleLR


class ConvBlock(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.SiLU())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(ConvBlock(3, 8), nn.MaxPool2d(2), ConvBlock(8, 8))
        self.classifier = nn.Linear(8, 5)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


def get_batch(g):
    y = torch.randint(0, 5, (16,), generator=g)
    x = torch.randn(16, 3, 8, 8, generator=g) + y.view(-1, 1, 1, 1) * 0.5
    return x, y


def main():
    torch.manual_seed(17)
    g = torch.Generator().manual_seed(17)
    epochs, iters = 3, 8
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, weight_decay=5e-4)
    scheduler = OneCycleLR(optimizer, max_lr=0.02, epochs=epochs, steps_per_epoch=iters, cycle_momentum=False)
    scaler = torch.amp.GradScaler("cpu")
    done = 0
    for epoch in range(epochs):
        for _ in range(iters):
            x, y = get_batch(g)
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.cross_entropy(model(x), y, reduction="sum")
            scaler.scale(loss).backward()
            old_scale = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            took_step = scaler.get_scale() >= old_scale
            done += took_step
            scheduler.step()  # <-- FAULT
        print(f"epoch {epoch} loss {loss.item() / 16:.3f} lr {scheduler.get_last_lr()[0]:.5f}")
    print(f"RESULT optimizer_steps={done} scheduler_steps={scheduler.last_epoch} lr={scheduler.get_last_lr()[0]:.3e}")


main()
