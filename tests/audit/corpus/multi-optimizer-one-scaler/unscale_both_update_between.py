import torch
from torch import nn

torch.manual_seed(9)
backbone = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
head = nn.Linear(24, 4)
opt_b = torch.optim.SGD(backbone.parameters(), lr=0.01, momentum=0.9)
opt_h = torch.optim.SGD(head.parameters(), lr=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=65536.0 / 16)
w_head = head.weight.detach().clone()


def train_iter(x, y):
    opt_b.zero_grad(), opt_h.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(head(backbone(x)), y)
    scaler.scale(loss).backward()
    scaler.unscale_(opt_b)
    scaler.unscale_(opt_h)
    nn.utils.clip_grad_norm_([*backbone.parameters(), *head.parameters()], 1.0)
    scaler.step(opt_b)
    scaler.update()  # <-- FAULT
    scaler.step(opt_h)
    scaler.update()
    return loss.item()


for i in range(20):
    x = torch.randn(32, 8)
    last = train_iter(x, x[:, :4].argmax(1))
print(f"RESULT loss={last:.4f} head_moved={(head.weight - w_head).norm().item():.3e}")
