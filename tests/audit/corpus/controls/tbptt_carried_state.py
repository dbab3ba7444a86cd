import torch
from torch import nn

torch.manual_seed(54)
cell, read = nn.GRUCell(4, 12), nn.Linear(12, 4)
params = [*cell.parameters(), *read.parameters()]
opt = torch.optim.RMSprop(params, lr=3e-3, centered=True)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
text = torch.eye(4)[torch.arange(120).remainder(7).remainder(4)].view(2, 60, 4)
state = torch.zeros(2, 12)
for t0 in range(0, 56, 8):
    state, loss = state.detach(), 0.0
    for t in range(t0, t0 + 7):
        with torch.autocast("cpu", dtype=torch.float16):
            state = cell(text[:, t], state)
            logits = read(state)
        loss = loss + nn.functional.cross_entropy(logits.float(), text[:, t + 1].argmax(1)) / 7
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(params, 1.0)
    scaler.step(opt)
    scaler.update()
    state = state.float()
print(f"RESULT loss={loss.item():.4f}")
