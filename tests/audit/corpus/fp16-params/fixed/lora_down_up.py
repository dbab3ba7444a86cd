import math

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r: int = 4, alpha: int = 8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, r, bias=False)
        self.up = nn.Linear(r, base.out_features, bias=False)
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        nn.init.zeros_(self.up.weight)
        self.gain = alpha / r

    def forward(self, x):
        return self.base(x) + self.gain * self.up(self.down(x))


torch.manual_seed(7)
backbone = nn.ModuleList([nn.Linear(16, 16), nn.Linear(16, 16)]).requires_grad_(False).half()
layers = nn.ModuleList(LoRALinear(m) for m in backbone)
head = nn.Linear(16, 3)
trainable = [p for p in layers.parameters() if p.requires_grad]
opt = torch.optim.AdamW([{"params": trainable, "lr": 1e-3}, {"params": head.parameters(), "lr": 1e-2, "weight_decay": 0.0}])
scaler = torch.amp.GradScaler("cpu")

X = torch.randn(120, 16)
Y = X[:, :3].argmax(1)
done = 0
for i in range(0, 120, 12):
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        h = X[i : i + 12]
        for layer in layers:
            h = torch.relu(layer(h))
        loss = nn.functional.cross_entropy(head(h), Y[i : i + 12])
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    done += 1
print(f"RESULT updates={done} up_norm={sum(m.up.weight.norm().item() for m in layers):.5f}")
