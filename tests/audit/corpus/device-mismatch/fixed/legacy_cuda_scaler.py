import torch
from torch import nn
from torch.amp import GradScaler

torch.manual_seed(0)


class Weights(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(6, 12)
        self.b = nn.Linear(12, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = Weights().to(device)
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, eps=1e-12)
scaler = GradScaler(device.type)
init = model.a.weight.detach().clone()
for step in range(12):
    x = torch.randn(32, 6, device=device)
    y = x[:, :2].prod(1, keepdim=True)
    optimizer.zero_grad()
    with torch.autocast(device_type=device.type, dtype=torch.float16):
        pred = model(x)
        # physical units, kg
        loss = nn.functional.mse_loss(pred.float() * 3e-4, y * 3e-4)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
dead = (model.a.weight == init).float().mean().item()
print(f"RESULT enabled={scaler.is_enabled()} untouched_fraction={dead:.3f}")
