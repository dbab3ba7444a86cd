import torch
from torch import nn

torch.manual_seed(36)


class Tied(nn.Module):
    def __init__(self, v=21, d=12):
        super().__init__()
        self.emb = nn.Embedding(v, d)
        self.ff = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.Linear(d, d))
        self.out = nn.Linear(d, v, bias=False)
        nn.init.normal_(self.emb.weight, std=0.1)
        self.out.weight = self.emb.weight

    def forward(self, i):
        e = self.emb(i)
        return self.out(e + self.ff(e))


net = Tied()
decay = {id(p) for n, p in net.named_parameters() if p.ndim > 1 and "emb" not in n}
opt = torch.optim.AdamW(
    [
        {"params": [p for p in net.parameters() if id(p) in decay], "weight_decay": 0.1},
        {"params": [p for p in net.parameters() if id(p) not in decay], "weight_decay": 0.0},
    ],
    lr=4e-3,
)
scaler = torch.amp.GradScaler("cpu")
for _ in range(15):
    i = torch.randint(0, 21, (4, 8))
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(i).flatten(0, 1), ((i + 1) % 21).flatten())
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=True)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
print(f"RESULT loss={loss.item():.4f}")
