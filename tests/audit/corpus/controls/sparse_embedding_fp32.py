import torch
from torch import nn

torch.manual_seed(37)
emb = nn.Embedding(200, 8, sparse=True)
dense = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
o1 = torch.optim.SparseAdam(list(emb.parameters()), lr=0.02)
o2 = torch.optim.Adam(dense.parameters(), lr=0.01)
truth = torch.randn(200)
for _ in range(25):
    pair = torch.randint(0, 200, (32, 2))
    y = (truth[pair[:, 0]] > truth[pair[:, 1]]).float()
    o1.zero_grad()
    o2.zero_grad()
    logit = dense(emb(pair).flatten(1)).squeeze(1)
    loss = nn.functional.binary_cross_entropy_with_logits(logit, y)
    loss.backward()
    o1.step()
    o2.step()
print(f"RESULT loss={loss.item():.4f}")
