import torch
from torch import nn

torch.manual_seed(15)
LIMIT = 0.25


class Price(nn.Module):
    def __init__(self):
        super().__init__()
        self.town = nn.Embedding(12, 6)
        self.fc1 = nn.Linear(6 + 4, 16)
        self.fc2 = nn.Linear(16, 1)

    def forward(self, town, feats):
        h = torch.cat([self.town(town), feats], -1)
        return self.fc2(torch.sigmoid(self.fc1(h)))


net = Price()
optim = torch.optim.Adam(net.parameters(), lr=1e-2, betas=(0.9, 0.99))
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
scales = []
for k in range(20):
    town, feats = torch.randint(0, 12, (128,)), torch.rand(128, 4)
    price = 10 + feats.sum(1, keepdim=True)
    optim.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        pred = net(town, feats)
    scaler.scale((pred.float() - price).square().mean()).backward()
    nn.utils.clip_grad_value_(net.parameters(), LIMIT * scaler.get_scale())  # <-- FAULT
    scaler.unscale_(optim)
    scaler.step(optim)
    scaler.update()
    scales.append(scaler.get_scale())
n = int(optim.state[net.fc2.weight]["step"])
print(f"RESULT applied={n}/20 lowest_scale={min(scales):.0f}")
