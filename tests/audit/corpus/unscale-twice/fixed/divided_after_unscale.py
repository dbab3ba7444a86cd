import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Enc(nn.Module):
    def __init__(self, i):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(i, 32), nn.GELU(), nn.Linear(32, 8))

    def forward(self, x):
        return F.normalize(self.net(x).float(), dim=-1)


img, txt = Enc(12), Enc(9)
logit_scale = nn.Parameter(torch.tensor(2.0))
params = [*img.parameters(), *txt.parameters(), logit_scale]
opt = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
for step in range(10):
    a = torch.randn(16, 12)
    b = a[:, :9] + 0.1 * torch.randn(16, 9)
    with torch.autocast("cpu", dtype=torch.float16):
        za, zb = img(a), txt(b)
    logits = logit_scale.exp() * za @ zb.t()
    labels = torch.arange(16)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(params, 1.0)
    scaler.step(opt)
    scaler.update()
    with torch.no_grad():
        logit_scale.clamp_(0, 4.6)
print("RESULT", loss.item(), scaler.get_scale())
