import torch
from lightning_fabric import Fabric
from torch import nn

fabric = Fabric(accelerator="cpu", devices=1)
fabric.seed_everything(7, verbose=False)
g, d = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 12), nn.LeakyReLU(), nn.Linear(12, 1))
g, og = fabric.setup(g, torch.optim.Adam(g.parameters(), lr=1e-3))
d, od = fabric.setup(d, torch.optim.Adam(d.parameters(), lr=1e-3))
bce = nn.functional.binary_cross_entropy_with_logits
for _ in range(15):
    real, fake = torch.randn(16, 2) + 2, g(torch.randn(16, 3))
    od.zero_grad()
    fabric.backward(bce(d(real), torch.ones(16, 1)))
    fabric.backward(bce(d(fake.detach()), torch.zeros(16, 1)))
    od.step()
    og.zero_grad()
    lg = bce(d(fake), torch.ones(16, 1))
    fabric.backward(lg)
    og.step()
print(f"RESULT g={lg.item():.4f}")
