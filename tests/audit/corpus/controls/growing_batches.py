import torch
from torch import nn

torch.manual_seed(46)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)


def accum_for(update):
    return 1 if update < 3 else 2 if update < 6 else 4


seen = 0
for update in range(9):
    k, b = accum_for(update), 8 + 4 * update
    opt.zero_grad()
    for part in torch.randn(b, 6).tensor_split(k):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(net(part), part.sin().sum(1, keepdim=True))
        scaler.scale(loss * len(part) / b).backward()
        seen += len(part)
    scaler.step(opt)
    scaler.update()
print(f"RESULT seen={seen} loss={loss.item():.4f}")
