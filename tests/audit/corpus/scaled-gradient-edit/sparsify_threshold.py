import torch
from torch import nn

torch.manual_seed(28)
THRESH = 5e-3
m = nn.Sequential(nn.EmbeddingBag(25, 12), nn.Linear(12, 25))
o = torch.optim.SGD(m.parameters(), lr=0.5)
sc = torch.amp.GradScaler("cpu", init_scale=2.0**11)
residual = [torch.zeros_like(p) for p in m.parameters()]
sent = total = 0
for _ in range(20):
    bag = torch.randint(0, 25, (16, 5))
    o.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(m(bag), bag[:, 0])
    sc.scale(loss).backward()
    # error feedback: what is too small to send waits for the next step
    for p, r in zip(m.parameters(), residual):
        r += p.grad
        mask = r.abs() >= THRESH
        p.grad.copy_(r * mask)  # <-- FAULT
        r *= ~mask
        sent += int(mask.sum())
        total += mask.numel()
    sc.step(o)
    sc.update()
print(f"RESULT sent_fraction={sent / total:.4f} loss={loss.item():.4f}")
