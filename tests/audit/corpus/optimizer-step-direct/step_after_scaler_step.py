import torch
from torch import nn

torch.manual_seed(23)
lr0 = 0.05
net = nn.Sequential(nn.Linear(12, 1))
nn.init.zeros_(net[0].weight), nn.init.zeros_(net[0].bias)
opt = torch.optim.SGD(net.parameters(), lr=lr0)
amp = True
scaler = torch.amp.GradScaler("cpu", init_scale=2**12, enabled=amp)
x = torch.randn(64, 12)
y = x @ torch.ones(12, 1)


def fit(n):
    for _ in range(n):
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16, enabled=amp):
            l = nn.functional.mse_loss(net(x), y)
        scaler.scale(l).backward()
        if amp:
            scaler.step(opt)
            scaler.update()
        opt.step()  # <-- FAULT
    return l.item()


a = fit(1)
w1 = net[0].weight.norm().item()
b = fit(9)
print(f"RESULT after_one_update={w1:.5f} loss={b:.5f}")
