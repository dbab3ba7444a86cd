from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_


@dataclass
class Run:
    steps: int = 25
    max_norm: float = 1.0
    losses: list = field(default_factory=list)


torch.manual_seed(5)
cfg = Run()
emb = nn.Embedding(20, 8)
tower = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
opt_emb = torch.optim.SGD(emb.parameters(), lr=1.0)
opt_tower = torch.optim.SGD(tower.parameters(), lr=0.2)
gs = torch.amp.GradScaler("cpu", init_scale=4096.0)
users, items = torch.randint(0, 10, (400,)), torch.randint(10, 20, (400,))
ratings = torch.sin(users.float()) + torch.cos(items.float())

for step in range(cfg.steps):
    sel = torch.randperm(400)[:40]
    opt_emb.zero_grad(), opt_tower.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        z = torch.cat([emb(users[sel]), emb(items[sel])], dim=1)
        loss = nn.functional.mse_loss(tower(z).squeeze(1), ratings[sel])
    gs.scale(loss).backward()
    gs.unscale_(opt_tower)
    gs.unscale_(opt_emb)
    clip_grad_norm_([*emb.parameters(), *tower.parameters()], cfg.max_norm)
    gs.step(opt_emb)
    gs.step(opt_tower)
    gs.update()
    cfg.losses.append(loss.item())

print(f"RESULT first={cfg.losses[0]:.4f} last5={sum(cfg.losses[-5:]) / 5:.4f}")
