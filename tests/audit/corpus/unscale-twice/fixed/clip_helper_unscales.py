import torch
import torch.nn as nn
import clip_helper_unscales_lib as U

torch.manual_seed(31)
backbone = nn.Sequential(nn.Linear(10, 20), nn.ELU(), nn.Linear(20, 20), nn.ELU())
head = nn.Linear(20, 5)
all_params = list(backbone.parameters()) + list(head.parameters())
optimizer = torch.optim.Adamax(all_params, lr=2e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
meter = U.Meter()

for step in range(12):
    feats = torch.randn(16, 10)
    target = feats[:, :5].argmax(-1)
    optimizer.zero_grad()
    with U.amp_ctx():
        loss = nn.functional.nll_loss(torch.log_softmax(head(backbone(feats)), -1), target)
    scaler.scale(loss).backward()
    if step % 4 == 0:
        scaler.unscale_(optimizer)
        meter.add("head_grad", head.weight.grad.norm().item())
    U.clip(scaler, optimizer, all_params, 1.0, already_unscaled=step % 4 == 0)
    scaler.step(optimizer)
    scaler.update()
print(f"RESULT steps={step + 1} head_grad={meter.mean('head_grad'):.4f}")
