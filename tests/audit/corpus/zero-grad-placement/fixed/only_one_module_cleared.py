import torch
import torch.nn as nn
from torch.nn import functional as F

torch.manual_seed(101)
img_tower, txt_tower = nn.Linear(10, 6), nn.Linear(7, 6)
logit_scale = nn.Parameter(torch.tensor(1.0))
optimizer = torch.optim.SGD([*img_tower.parameters(), *txt_tower.parameters(), logit_scale], lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
mix = torch.randn(10, 7)


def clip_loss(a, b):
    a, b = F.normalize(a.float(), dim=-1), F.normalize(b.float(), dim=-1)
    logits = logit_scale.exp() * a @ b.t()
    t = torch.arange(len(a))
    return (F.cross_entropy(logits, t) + F.cross_entropy(logits.t(), t)) / 2


for step in range(40):
    img = torch.randn(12, 10)
    txt = img @ mix
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        a, b = img_tower(img), txt_tower(txt)
    loss = clip_loss(a, b)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print(f"RESULT loss={loss.item():.4f} txt_norm={txt_tower.weight.norm().item():.3f} logit_scale={logit_scale.item():.3f}")
