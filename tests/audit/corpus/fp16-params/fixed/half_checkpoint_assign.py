import io

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(6, 20), nn.LayerNorm(20), nn.ReLU(), nn.Linear(20, 2))


def published_weights():
    buf = io.BytesIO()
    torch.save({k: v.half() for k, v in build().state_dict().items()}, buf)
    buf.seek(0)
    return buf


torch.manual_seed(100)
ckpt = torch.load(published_weights(), weights_only=True)
net = build()
net.load_state_dict(ckpt)
net.train()

optimizer = torch.optim.SGD(net.parameters(), lr=5e-2)
sched = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 0.95**t)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)


def finetune(n_iter):
    seen = 0
    while seen < n_iter:
        x = torch.randn(10, 6)
        y = (x.sum(1) > 0).long()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scale <= scaler.get_scale():
            sched.step()
        optimizer.zero_grad()
        seen += 1
    return loss


final = finetune(15)
print(f"RESULT lr={sched.get_last_lr()[0]:.5f} loss={final.item():.4f} dtype={next(net.parameters()).dtype}")
