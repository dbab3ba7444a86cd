import time

import torch
from torch import nn

torch.manual_seed(62)
ACCUM, B, T = 4, 2, 8
net = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
clock, tokens, last = time.perf_counter(), 0, 0.0
for micro in range(1, 25):
    ids = torch.randint(0, 11, (B, T))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = net(ids)
    loss = nn.functional.cross_entropy(z.float().flatten(0, 1), ids.flatten())
    (loss / ACCUM).backward()
    tokens += ids.numel()
    if micro % ACCUM:
        continue
    opt.step()
    opt.zero_grad()
    now = time.perf_counter()
    last, clock = ACCUM * B * T / (now - clock), now
print(f"RESULT tokens={tokens} loss={loss.item():.4f} positive_rate={last > 0}")
