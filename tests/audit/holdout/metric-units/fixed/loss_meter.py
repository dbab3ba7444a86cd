import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Meter:
    def __init__(self, beta=0.8):
        self.beta, self.value, self.n = beta, 0.0, 0

    def push(self, v):
        self.n += 1
        self.value = self.beta * self.value + (1 - self.beta) * v

    def __str__(self):
        return f"{self.read():.4f}"

    def read(self):
        return self.value / (1 - self.beta**self.n)


class AutoEncoder(nn.Module):
    def __init__(self, d=16, z=3):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, 24), nn.Tanh(), nn.Linear(24, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 24), nn.Tanh(), nn.Linear(24, d))

    def forward(self, x):
        mu, logvar = self.enc(x).float().chunk(2, -1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(-1).mean()
        return self.dec(z), kl


def elbo(model, x, beta):
    with torch.autocast("cpu", dtype=torch.float16):
        rec, kl = model(x)
        return nn.functional.mse_loss(rec, x) + beta * kl


def validate(model, x, beta):
    model.eval()
    with torch.no_grad():
        v = elbo(model, x, beta).item()
    model.train()
    return v


torch.manual_seed(0)
basis = torch.randn(3, 16)
train = torch.randn(192, 3) @ basis
val = torch.randn(64, 3) @ basis
model = AutoEncoder()
opt = torch.optim.Adamax(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**9, growth_interval=10)
meter = Meter()
history = []
for epoch in range(4):
    for (x,) in DataLoader(TensorDataset(train), batch_size=32, shuffle=True):
        opt.zero_grad()
        loss = elbo(model, x, beta=0.02)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        meter.push(loss.item())
    history.append((meter.read(), validate(model, val, 0.02)))
    print(f"epoch {epoch} train {meter} val {history[-1][1]:.4f}")
print("RESULT train=" + ",".join(f"{a:.4g}" for a, _ in history) + " val=" + ",".join(f"{b:.4g}" for _, b in history))
