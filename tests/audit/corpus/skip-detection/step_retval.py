import torch
from torch import nn
import torch.nn.functional as F

cfg = {"lr": 0.03, "iters": 18, "batch": 16, "temp": 0.2}


class Contrastive(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(7, 16)
        self.right = nn.Linear(5, 16)

    def forward(self, a, b):
        a, b = F.normalize(self.left(a), dim=-1), F.normalize(self.right(b), dim=-1)
        logits = a @ b.t() / cfg["temp"]
        target = torch.arange(len(logits))
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2


torch.manual_seed(38)
net = Contrastive()
opt = torch.optim.SGD(net.parameters(), lr=cfg["lr"], momentum=0.9)
decay = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=cfg["iters"])
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
stat = dict(stepped=0, skipped=0)
for _ in range(cfg["iters"]):
    shared = torch.randn(cfg["batch"], 5)
    a = torch.cat([shared, torch.randn(cfg["batch"], 2)], 1)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = net(a, shared)
    scaler.scale(loss).backward()
    ret = scaler.step(opt)
    scaler.update()
    if ret is None:  # <-- FAULT
        stat["skipped"] += 1
    else:
        stat["stepped"] += 1
        decay.step()
print(f"RESULT {stat} schedule={decay.last_epoch} lr={opt.param_groups[0]['lr']:.4f} loss={loss.item():.3f}")
