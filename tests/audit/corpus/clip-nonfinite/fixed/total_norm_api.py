import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

torch.manual_seed(48)
gcn = [nn.Linear(4, 12), nn.Linear(12, 2)]
A = (torch.rand(20, 20) < 0.2).float()
A = ((A + A.t() + torch.eye(20)) > 0).float()
A = A / A.sum(1, keepdim=True)
feat = torch.randn(20, 4)
lab = (A @ feat)[:, 0].gt(0).long()
params = [p for l in gcn for p in l.parameters()]
opt = torch.optim.Adadelta(params, lr=1.0)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**23)

step = 0
while step < 25:
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        h = torch.relu(A @ gcn[0](feat))
        z = A @ gcn[1](h)
        loss = nn.functional.cross_entropy(z, lab)
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    grads = [p.grad for p in params]
    total = get_total_norm(grads)
    clip_grads_with_norm_(params, 1.0, total)
    scaler.step(opt)
    scaler.update()
    step += 1
print(f"RESULT steps={step} loss={loss.item():.4f}")
