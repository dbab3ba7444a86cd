import torch
from torch import nn
from layer_histograms_lib import HistWriter

torch.manual_seed(52)
model = nn.Sequential()
model.add_module("embed", nn.Linear(10, 16))
model.add_module("act", nn.ReLU())
model.add_module("out", nn.Linear(16, 4))
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
writer = HistWriter()
for step in range(9):
    x = torch.randn(24, 10)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.multi_margin_loss(model(x).float(), x[:, :4].argmin(1))
    scaler.scale(loss).backward()
    if step % 4 == 0:
        writer.add_gradients(model, step)
    scaler.step(opt)
    scaler.update()
print("RESULT inside_range", *[f"{k}={v:.2f}" for k, v in writer.coverage().items()])
