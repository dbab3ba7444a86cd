import torch
from torch import nn

torch.manual_seed(16)


@torch.no_grad()
def centralise(module):
    for p in module.parameters():
        if p.grad is not None and p.grad.dim() > 1:
            p.grad -= p.grad.mean(dim=tuple(range(1, p.grad.dim())), keepdim=True)


net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
gs = torch.amp.GradScaler("cpu", init_scale=512.0)
i = 0
while i < 10:
    x = torch.randn(5, 2, 4, 4)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(net(x), (x[:, 0].mean((1, 2)) > 0).long())
    gs.scale(loss).backward()
    gs.unscale_(opt)
    centralise(net)
    gs.step(opt)
    gs.update()
    opt.zero_grad()
    i += 1
print(f"RESULT loss={loss.item():.4f}")
