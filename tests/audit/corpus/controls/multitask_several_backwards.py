import torch
from torch import nn


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.heads = nn.ModuleDict({"cls": nn.Linear(16, 3), "reg": nn.Linear(16, 1), "rec": nn.Linear(16, 8)})


torch.manual_seed(14)
net = Shared()
opt = torch.optim.AdamW(net.parameters(), lr=4e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
coef = {"cls": 1.0, "reg": 0.5, "rec": 0.1}
for _ in range(14):
    x = torch.randn(16, 8)
    with torch.autocast("cpu", dtype=torch.float16):
        h = net.trunk(x)
        losses = {
            "cls": nn.functional.cross_entropy(net.heads["cls"](h), x[:, :3].argmax(1)),
            "reg": nn.functional.huber_loss(net.heads["reg"](h), x.norm(dim=1, keepdim=True)),
            "rec": nn.functional.mse_loss(net.heads["rec"](h), x),
        }
    for n, (k, v) in enumerate(losses.items()):
        scaler.scale(coef[k] * v).backward(retain_graph=n < 2)
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
print("RESULT " + " ".join(f"{k}={v.item():.4f}" for k, v in losses.items()))
