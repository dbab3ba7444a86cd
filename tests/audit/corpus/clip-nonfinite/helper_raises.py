import torch
import torch.nn as nn

from helper_raises_lib import Hyper, finish_update, make_data

hp = Hyper()
torch.manual_seed(hp.seed)
net = nn.Sequential(nn.Linear(hp.dim, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, hp.dim))
opt = torch.optim.AdamW(net.parameters(), lr=hp.lr, weight_decay=hp.wd)
scaler = torch.amp.GradScaler("cpu", init_scale=hp.init_scale)
attempts = 0
for x, y in make_data(hp):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(net(x), y)
    scaler.scale(loss).backward()
    finish_update(net, opt, scaler, hp)
    attempts += 1
print(f"RESULT attempts={attempts} loss={loss.item():.3f} scale={scaler.get_scale():.0f}")
