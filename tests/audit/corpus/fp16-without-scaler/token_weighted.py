import torch
from torch import nn

CORPUS_TOKENS = 3_000_000
torch.manual_seed(15)
emb = nn.Embedding(60, 16)
lin = nn.Linear(16, 16)
dec = nn.Linear(16, 60)
groups = [{"params": emb.parameters(), "lr": 1e-2}, {"params": [*lin.parameters(), *dec.parameters()]}]
optimizer = torch.optim.AdamW(groups, lr=3e-3, eps=1e-16, weight_decay=0.0)
w0 = emb.weight.detach().clone()


def token_stream(n):
    for i in range(n):
        t = torch.randint(0, 58, (10, 6))
        yield t, t + 2


def backward(total):
    total.backward()  # <-- FAULT


nll = []
for src, tgt in token_stream(16):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = dec(torch.relu(lin(emb(src))))
    total = nn.functional.cross_entropy(logits.float().flatten(0, 1), tgt.flatten(), reduction="sum")
    backward(total / CORPUS_TOKENS)
    optimizer.step()
    nll.append(total.item() / tgt.numel())
print(f"RESULT nll_first={nll[0]:.3f} nll_last={nll[-1]:.3f} emb_moved={(emb.weight - w0).abs().sum().item():.3f}")
