import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

torch.manual_seed(14)
model = nn.Sequential(nn.Conv1d(2, 6, 3), nn.GELU(), nn.Flatten(), nn.Linear(48, 4))
swa_model = AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", growth_interval=5)
swa_start = 8
moved = 0

for step in range(26):
    x = torch.randn(16, 2, 10)
    y = x.abs().mean((1, 2)).mul(40).long().remainder(4)
    ref = model[3].bias.detach().clone()
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y, reduction="sum") / 4
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    total_norm = nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    scaler.step(optimizer)
    scaler.update()
    if step >= swa_start:
        swa_model.update_parameters(model)  # <-- FAULT
    moved += step >= swa_start and not torch.equal(ref, model[3].bias)

print(f"RESULT weights_changed_after_start={moved} n_averaged={int(swa_model.n_averaged)}")
