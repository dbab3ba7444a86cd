import torch
from torch import nn

torch.manual_seed(2)
m = nn.Sequential(nn.Conv1d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2))
o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
s = torch.amp.GradScaler("cpu", init_scale=512.0)
for _ in range(8):
    o.zero_grad()
    losses = []
    for _ in range(4):
        x = torch.randn(6, 1, 8)
        y = (x.mean((1, 2)) > 0).long()
        with torch.autocast("cpu", dtype=torch.float16):
            losses.append(nn.functional.cross_entropy(m(x), y))
    s.scale(torch.stack(losses).mean()).backward()
    s.step(o)
    s.update()
print(f"RESULT mean_loss={torch.stack(losses).mean().item():.4f}")
