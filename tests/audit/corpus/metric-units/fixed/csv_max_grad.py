import csv
import os
import tempfile

import torch
from torch import nn

torch.manual_seed(30)
path = os.path.join(tempfile.mkdtemp(), "metrics.csv")
model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 1))
opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=512.0)

with open(path, "w", newline="") as fh:
    w = csv.DictWriter(fh, ["step", "loss", "max_grad"])
    w.writeheader()
    for step in range(10):
        x = torch.randn(12, 2, 6, 6)
        y = x.amax((1, 2, 3)).unsqueeze(1)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(opt)
        max_grad = max(p.grad.abs().max().item() for p in model.parameters())
        scaler.update()
        w.writerow({"step": step, "loss": f"{loss.item():.5f}", "max_grad": f"{max_grad:.5g}"})

with open(path) as fh:
    rows = list(csv.DictReader(fh))
print("RESULT " + rows[0]["max_grad"] + " " + rows[-1]["max_grad"] + " rows=" + str(len(rows)))
