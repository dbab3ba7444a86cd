import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(1)


class MF(nn.Module):
    def __init__(self, n_user, n_item, k=8):
        super().__init__()
        self.u = nn.Embedding(n_user, k)
        self.v = nn.Embedding(n_item, k)

    def forward(self, pairs):
        return (self.u(pairs[:, 0]) * self.v(pairs[:, 1])).sum(1)


pairs = torch.stack([torch.randint(0, 20, (512,)), torch.randint(0, 12, (512,))], 1)
ratings = ((pairs[:, 0] + pairs[:, 1]) % 5).float()
mf = MF(20, 12)
mf = mf.bfloat16()  # <-- FAULT
before = torch.cat([p.detach().flatten() for p in mf.parameters()]).float()
optimizer = torch.optim.SGD(mf.parameters(), lr=2e-4)
for epoch in range(2):
    for idx in DataLoader(range(512), batch_size=32, shuffle=True):
        optimizer.zero_grad()
        out = mf(pairs[idx])
        loss = nn.functional.mse_loss(out.float(), ratings[idx])
        loss.backward()
        optimizer.step()
after = torch.cat([p.detach().flatten() for p in mf.parameters()]).float()
print(f"RESULT unchanged={(before == after).sum().item()}/{before.numel()} shift={(after - before).norm().item():.4f}")
