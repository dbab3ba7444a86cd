import torch
from torch import nn


def zero_bad_grads(parameters):
    bad = 0
    for p in parameters:
        if p.grad is not None and not torch.isfinite(p.grad).all():
            p.grad.zero_()  # <-- FAULT
            bad += 1
    return bad


class Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNN(3, 14, batch_first=True)
        self.read = nn.Linear(14, 1)

    def forward(self, x):
        return self.read(self.cell(x)[0][:, -1])


torch.manual_seed(33)
model = Seq()
opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=0.05)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
drift = hits = 0
for it in range(15):
    x = torch.randn(12, 8, 3)
    y = x.sum((1, 2))[:, None]
    if it in (5, 11):
        y[0] = float("inf")
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        out = model(x)
    scaler.scale(nn.functional.mse_loss(out.float(), y)).backward()
    bad = zero_bad_grads(model.parameters())
    w = model.read.weight.detach().clone()
    scaler.step(opt)
    scaler.update()
    if bad:
        hits += 1
        drift += (model.read.weight - w).abs().sum().item()
print(f"RESULT bad_batches={hits} drift_on_bad={drift:.4e} rms_steps={int(opt.state[model.read.weight]['step'])}")
