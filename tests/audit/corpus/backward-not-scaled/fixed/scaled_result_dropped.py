import torch, math
from torch import nn

torch.manual_seed(8)
pe = torch.stack([torch.sin(torch.arange(6) / 10 ** (i / 4)) for i in range(8)], 1)
tok = nn.Embedding(11, 8)
qkv, out = nn.Linear(8, 24), nn.Linear(8, 11)
mods = nn.ModuleList([tok, qkv, out])
opt = torch.optim.Adagrad(mods.parameters(), lr=0.1, initial_accumulator_value=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14)
mask = torch.full((6, 6), float("-inf")).triu(1)


def lm(ids):
    x = tok(ids) + pe
    q, k, v = qkv(x).chunk(3, -1)
    att = (q @ k.mT / math.sqrt(8)).float() + mask
    return out(x + att.softmax(-1) @ v.float())


for it in range(40):
    ids = (torch.randint(0, 11, (16, 1)) + torch.arange(7)) % 11
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(lm(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
print(f"RESULT ppl={loss.exp().item():.3f}")
