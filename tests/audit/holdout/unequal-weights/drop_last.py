import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sensors(Dataset):
    def __init__(self, n=70, d=8):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, d, generator=g)
        self.y = self.x[:, :2].sum(1, keepdim=True)
        self.y[-6:] += 3.0  # recorded after the recalibration

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def chunks(loader, k):
    buf = []
    for item in loader:
        buf.append(item)
        if len(buf) == k:
            yield buf
            buf = []
    if buf:
        yield buf


class Regressor(nn.Module):
    def __init__(self, d=8, h=16):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(d, h), nn.Linear(d, h), nn.Linear(h, 1)

    def forward(self, x):
        return self.out(self.a(x) * torch.sigmoid(self.b(x)))


def fit(model, data, epochs, micro_bs, accum, lr):
    loader = DataLoader(data, batch_size=micro_bs, shuffle=False)
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    log = []
    for epoch in range(epochs):
        for group in chunks(loader, accum):
            n = sum(len(x) for x, _ in group)
            se = 0.0
            opt.zero_grad()
            for x, y in group:
                with torch.autocast("cpu", dtype=torch.float16):
                    err = model(x).float() - y
                    loss = err.square().mean()
                se += err.detach().square().sum().item()
                scaler.scale(loss / len(group)).backward()  # <-- FAULT
            scaler.step(opt)
            scaler.update()
            log.append(math.sqrt(se / n))
        print(f"epoch {epoch} rmse {log[-1]:.4f} ({len(log)} updates)")
    return log


torch.manual_seed(0)
data = Sensors()
net = Regressor()
rmse = fit(net, data, epochs=4, micro_bs=8, accum=3, lr=0.1)
with torch.no_grad():
    overall = (net(data.x) - data.y).square().mean().sqrt().item()
print(f"RESULT updates={len(rmse)} out_bias={net.out.bias.item():.5f} rmse={overall:.5f}")
