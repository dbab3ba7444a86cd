import torch
from torch import nn

from half_moment_adam_lib import CompactAdam


def make_batch(gen, n=16):
    ids = torch.randint(0, 30, (n, 4), generator=gen)
    return ids, (ids.sum(1) % 3)


torch.manual_seed(0)
gen = torch.Generator().manual_seed(12)
emb = nn.Embedding(40, 8)
clf = nn.Linear(32, 3)
params = [*emb.parameters(), *clf.parameters()]
optim = CompactAdam(params, lr=3e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
for k in range(15):
    ids, y = make_batch(gen)
    optim.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(clf(emb(ids).flatten(1)), y)
    scaler.scale(loss).backward()
    scaler.step(optim)
    scaler.update()
bad = sum(int((~p.isfinite()).sum()) for p in params)
print(f"RESULT loss={loss.item():.4f} nonfinite_weights={bad}")
