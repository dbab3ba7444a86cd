import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.manual_seed(20)
net = nn.Linear(5, 1)
avg = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.5))
opt = torch.optim.SGD(net.parameters(), lr=0.02)
scaler = torch.amp.GradScaler("cpu")
xs = torch.randn(6, 20, 5)
w = torch.randn(5, 1)
for _epoch in range(5):
    for x in xs[torch.randperm(6)]:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(net(x), x @ w)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    avg.update_parameters(net)
print(f"RESULT loss={loss.item():.4f} averaged={int(avg.n_averaged)}")
