import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(44)
backbone = nn.Sequential(nn.Embedding(25, 10), nn.Flatten(), nn.Linear(40, 16), nn.Tanh())
memory = nn.Linear(16, 5)
ds = TensorDataset(torch.randint(0, 25, (64, 4)), torch.randint(0, 5, (64,)))
for p in memory.parameters():
    p.requires_grad_(False)  # fixed random codebook
optimizer = torch.optim.Adam(backbone.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
feats_bank = []
penalty = nn.Parameter(torch.zeros(()))
pen_opt = torch.optim.SGD([penalty], lr=0.1)
for ids, y in DataLoader(ds, batch_size=16):
    optimizer.zero_grad()
    pen_opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        f = backbone(ids)
        logits = memory(f)
        feats_bank.append(f.detach())
        loss = nn.functional.cross_entropy(logits * penalty.exp(), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.step(pen_opt)
    scaler.update()
bank = torch.cat([b.detach().float() for b in feats_bank])
print(f"RESULT bank={tuple(bank.shape)} penalty={penalty.item():.5f} loss={loss.item():.4f}")
