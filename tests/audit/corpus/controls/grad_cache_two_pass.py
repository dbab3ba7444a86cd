import torch
from torch import nn

torch.manual_seed(33)
enc = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 6))
opt = torch.optim.Adam(enc.parameters(), lr=3e-3)
CHUNK = 8


def embed(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return nn.functional.normalize(enc(x).float(), dim=-1)


for _ in range(8):
    x = torch.randn(32, 12)
    views = [x + 0.2 * torch.randn_like(x), x + 0.2 * torch.randn_like(x)]
    with torch.no_grad():
        cached = [torch.cat([embed(c) for c in v.split(CHUNK)]) for v in views]
    leaves = [c.requires_grad_() for c in cached]
    loss = nn.functional.cross_entropy(leaves[0] @ leaves[1].T / 0.1, torch.arange(32))
    loss.backward()
    opt.zero_grad()
    for v, leaf in zip(views, leaves, strict=True):
        for c, g in zip(v.split(CHUNK), leaf.grad.split(CHUNK), strict=True):
            embed(c).backward(g)
    opt.step()
print(f"RESULT loss={loss.item():.4f}")
