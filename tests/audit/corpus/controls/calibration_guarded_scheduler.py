import torch
from torch import nn

torch.manual_seed(22)
model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=20, power=2.0)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26, growth_interval=100)
global_step = skipped = 0
while global_step < 20:
    x = torch.randn(24, 12)
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), x[:, :5].argmax(1))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    scaler.step(optimizer)
    scale = scaler.get_scale()
    scaler.update()
    if scale > scaler.get_scale():
        skipped += 1
        continue
    scheduler.step()
    global_step += 1
print(f"RESULT loss={loss.item():.4f} skipped={skipped} lr={scheduler.get_last_lr()[0]:.5f}")
