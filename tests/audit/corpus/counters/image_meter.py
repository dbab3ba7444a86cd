import time

import torch
from torch import nn


class ThroughputMeter:
    def __init__(self):
        self.n, self.seconds = 0, 0.0
        self.mark = time.perf_counter()

    def update(self, n):
        now = time.perf_counter()
        self.n += n
        self.seconds += now - self.mark
        self.mark = now

    @property
    def images_per_second(self):
        return self.n / self.seconds


torch.manual_seed(0)
ACCUM, BS = 5, 6
net = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.Flatten(1), nn.Linear(54, 2))
opt = torch.optim.Adamax(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
meter = ThroughputMeter()
pushed = 0
for i in range(ACCUM * 4):
    images, labels = torch.randn(BS, 3, 8, 8), torch.randint(0, 2, (BS,))
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(images), labels) / ACCUM
    scaler.scale(loss).backward()
    pushed += len(images)
    if (i + 1) % ACCUM == 0:
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
        meter.update(images.size(0))  # <-- FAULT
        print(f"[{i + 1:3d}] {meter.images_per_second:.1f} img/s")
print(f"RESULT images_in={pushed} images_in_meter={meter.n}")
