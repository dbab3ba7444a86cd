import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(6)
N = 30
adj = (torch.rand(N, N) < 0.15).float()
adj = ((adj + adj.t()) > 0).float().fill_diagonal_(1)
deg = adj.sum(1, keepdim=True)


class GAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.x = nn.Embedding(N, 16)
        self.w1 = nn.Linear(16, 16)
        self.w2 = nn.Linear(16, 8)

    def encode(self):
        h = F.relu(adj @ self.w1(self.x.weight) / deg)
        return adj @ self.w2(h)


gae = GAE()
opt = torch.optim.Adam(gae.parameters(), lr=0.02)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**11)
for epoch in range(15):
    gae.train()
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        z = gae.encode()
        score = z @ z.t()
        link = torch.sigmoid(score)
        loss = F.binary_cross_entropy(link, adj)  # <-- FAULT
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
print(f"RESULT epoch={epoch} loss={loss.item():.4f} saturated={int((link == 1).sum())}")
