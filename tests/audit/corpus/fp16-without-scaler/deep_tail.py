import torch
from torch import nn

torch.manual_seed(0)
layers = []
for i in range(4):
    layers += [nn.Linear(12, 12), nn.Sigmoid()]
net = nn.Sequential(*layers, nn.Linear(12, 1))
opt = torch.optim.Adam(net.parameters(), lr=2e-3, eps=1e-12)
first = net[0].weight.detach().clone()
for step in range(15):
    x = torch.randn(64, 12)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        out = net(x)
        loss = nn.functional.mse_loss(out, 0.01 * x[:, :1]) * 1e-3
    loss.backward()  # <-- FAULT
    opt.step()
print(f"RESULT loss={loss.item():.3e} first_layer_moved={(net[0].weight - first).abs().mean().item():.2e}")
