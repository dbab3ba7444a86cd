import torch
from torch import nn

AMP = dict(device_type="cpu", dtype=torch.bfloat16)


class PolyFeatures(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lift = nn.Linear(d, d)
        self.mix = nn.Linear(d, d)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            u = self.lift(x)
            return self.mix(u * u)


torch.manual_seed(17)
model = nn.Sequential(PolyFeatures(8), nn.LayerNorm(8), nn.Linear(8, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
start = [p.detach().clone() for p in model.parameters()]
for step in range(10):
    x = torch.randn(16, 8) * 400.0  # millimetres
    y = (x[:, :1] / 400.0) ** 2
    with torch.autocast(**AMP):
        loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(f"RESULT loss={loss.item():.4f} finite_weights={all(p.isfinite().all().item() for p in model.parameters())}")
