import torch
from torch import nn

torch.manual_seed(5)
rnn = nn.GRU(4, 10, batch_first=True)
out = nn.Linear(10, 1)
params = list(rnn.parameters()) + list(out.parameters())
opt = torch.optim.SGD(params, lr=0.5)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**13)
clip = 0.1
for step in range(12):
    limit = clip * scaler.get_scale()
    seq = torch.randn(5, 6, 4)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        h, _ = rnn(seq)
        loss = nn.functional.l1_loss(out(h[:, -1]), seq.mean((1, 2)).unsqueeze(1))
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(params, limit)
    scaler.step(opt)
    scaler.update()
print(f"RESULT loss={loss.item():.4f}")
