import torch
from torch import nn

torch.manual_seed(57)
emb, head = nn.Embedding(30, 6), nn.Linear(12, 1)
fast = torch.optim.Adam(head.parameters(), lr=5e-3)
slow = torch.optim.Adagrad(emb.parameters(), lr=0.1)
EVERY = 4
value = torch.randn(30)
for i in range(1, 33):
    ids = torch.randint(0, 30, (16, 2))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        p = head(emb(ids).flatten(1))
    loss = (p.float().squeeze(1) - value[ids].sum(1)).square().mean()
    fast.zero_grad()
    loss.backward()
    fast.step()
    if i % EVERY == 0:
        emb.weight.grad.div_(EVERY)
        slow.step()
        slow.zero_grad()
print(f"RESULT loss={loss.item():.4f}")
