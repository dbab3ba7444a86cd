import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 24), nn.ReLU())
cls, box = nn.Linear(24, 3), nn.Linear(24, 4)
params = [*net.parameters(), *cls.parameters(), *box.parameters()]
opt = torch.optim.AdamW(params, lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
ITER_SIZE = 4


def targets(x):
    return (x[:, 0] > 0.4).long() * (1 + (x[:, 1] > 0).long())


for step in range(6):
    window = [torch.randn(20, 6) for _ in range(ITER_SIZE)]
    num_boxes = max(1, sum(int((targets(x) > 0).sum()) for x in window))
    for x in window:
        target = targets(x)
        with torch.autocast("cpu", dtype=torch.float16):
            h = net(x)
            logits, boxes = cls(h).float(), box(h).float()
        pos = target > 0
        num_boxes = max(1, int(pos.sum()))
        loss_ce = F.cross_entropy(logits, target, reduction="sum") / num_boxes
        loss_l1 = F.l1_loss(boxes[pos], x[pos, :4], reduction="sum") / num_boxes
        loss = loss_ce + 5 * loss_l1
        scaler.scale(loss / ITER_SIZE).backward()  # <-- FAULT
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(params, 0.1)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
print("RESULT", loss.item())
