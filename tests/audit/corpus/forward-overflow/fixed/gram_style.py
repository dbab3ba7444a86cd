import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(21)


def gram(f):
    b, c, h, w = f.shape
    f = f.reshape(b, c, h * w)
    f = f / (c * h * w) ** 0.5
    return torch.bmm(f, f.transpose(1, 2))


feat = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
for p in feat.parameters():
    p.requires_grad = False
    p *= 6
style = torch.rand(1, 3, 16, 16) * 4
canvas = nn.Parameter(torch.rand(1, 3, 16, 16) * 4)
opt = torch.optim.Adam([canvas], lr=0.05)
scaler = torch.amp.GradScaler(device="cpu", init_scale=16.0)
start = canvas.detach().clone()
with torch.no_grad():
    target = gram(feat(style))
losses = []
for _ in range(12):
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = F.l1_loss(gram(feat(canvas)), target)
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    losses.append(loss.item())
print(f"RESULT loss_first={losses[0]:.4g} loss_last={losses[-1]:.4g} moved={(canvas - start).abs().mean().item():.4f}")
