import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(38)


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            [nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 12), nn.GELU(), nn.Dropout(0.1)) for _ in range(4)]
        )
        self.out = nn.Linear(12, 2)

    def forward(self, x):
        for b in self.blocks:
            x = x + checkpoint(b, x, use_reentrant=False)
        return self.out(x)


net = Deep()
opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=4096.0)
for i in range(12):
    x = torch.randn(8, 12)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long()) / 2
    scaler.scale(loss).backward()
    if i % 2 == 1:
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
print(f"RESULT loss={loss.item() * 2:.4f}")
