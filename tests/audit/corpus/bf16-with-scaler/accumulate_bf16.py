import itertools

import torch
from torch import nn
from torch.amp import GradScaler, autocast

ACC = 3
torch.manual_seed(5)
encoder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
readout = nn.Linear(16, 1)
params = list(itertools.chain(encoder.parameters(), readout.parameters()))
optimizer = torch.optim.Adamax(params, lr=4e-3)
scaler = GradScaler(device="cpu", init_scale=2.0**14)  # <-- FAULT


def sample():
    s = torch.randn(6, 5, 16)
    return s, s[:, :, 0].amax(1, keepdim=True)


for update in range(6):
    optimizer.zero_grad(set_to_none=True)
    for micro in range(ACC):
        s, t = sample()
        with autocast("cpu", dtype=torch.bfloat16):
            pred = readout(encoder(s).mean(1))
            loss = (pred - t).pow(2).mean() / ACC
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print("RESULT updates=%d loss=%.4f scaler=%s" % (update + 1, loss.item() * ACC, scaler.state_dict().get("scale")))
