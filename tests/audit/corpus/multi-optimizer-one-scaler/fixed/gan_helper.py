import copy

import torch
from torch import nn

from gan_helper_lib import Stepper, bce_ones, bce_zeros

torch.manual_seed(27)
G = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 2))
D = nn.Sequential(nn.Linear(2, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1))
G0 = copy.deepcopy(G)
stepper = Stepper(init_scale=128.0, growth_interval=3)
od = torch.optim.SGD(D.parameters(), lr=0.1)
og = torch.optim.SGD(G.parameters(), lr=0.1)

for it in range(10):
    z, real = torch.randn(16, 3), torch.randn(16, 2) * 0.3 + 1
    with torch.autocast("cpu", dtype=torch.float16):
        fake = G(z)
        d_loss = bce_ones(D(real)) + bce_zeros(D(fake.detach()))
        score = D(fake)
        g_loss = bce_ones(score)
    og.zero_grad()
    stepper.scaler.scale(g_loss).backward(inputs=list(G.parameters()))
    od.zero_grad()
    stepper.scaler.scale(d_loss).backward()
    stepper.step(od)
    stepper.step(og)
    stepper.scaler.update()
moved = sum((a - b).pow(2).sum() for a, b in zip(G.parameters(), G0.parameters())).sqrt().item()
print(f"RESULT g_moved={moved:.5f} d_loss={d_loss.item():.4f} g_loss={g_loss.item():.4f} scale={stepper.scaler.get_scale():.0f}")
