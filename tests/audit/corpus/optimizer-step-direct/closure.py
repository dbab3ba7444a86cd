import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(33)


class Autoencoder(nn.Module):
    def __init__(self, d=10, z=3):
        super().__init__()
        self.enc = nn.Linear(d, z)
        self.dec = nn.Linear(z, d)

    def forward(self, x):
        return self.dec(F.softplus(self.enc(x)))


ae = Autoencoder()
optim = torch.optim.SGD(ae.parameters(), lr=0.3, weight_decay=1e-4, momentum=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
data = torch.rand(64, 10)
curve = []
for it in range(30):

    def closure():
        optim.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.mse_loss(ae(data), data)
        scaler.scale(loss).backward()
        return loss

    curve.append(optim.step(closure).item())  # <-- FAULT
print(f"RESULT start={curve[0]:.4f} end={curve[-1]:.4f} wnorm={ae.dec.weight.norm().item():.4f}")
