import torch
from torch import nn

torch.manual_seed(9)
model = nn.Linear(9, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=5)
rows = []
for it in range(12):
    x = torch.randn(20, 9)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.multi_margin_loss(model(x).float(), x[:, :3].argmin(1))
    scaler.scale(loss).backward()
    raw = nn.utils.get_total_norm([p.grad for p in model.parameters()])
    used = scaler.get_scale()
    scaler.step(opt)
    scaler.update()
    rows.append({"it": it, "loss": loss.item(), "grad_norm": raw.item() / used})
print("RESULT grad_norm " + " ".join(f"{r['grad_norm']:.4f}" for r in rows[-3:]))
