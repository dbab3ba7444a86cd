import torch
from torch import nn

torch.manual_seed(32)
img, txt = nn.Linear(10, 8), nn.EmbeddingBag(40, 8)
log_t = nn.Parameter(torch.tensor(2.3))
opt = torch.optim.AdamW([*img.parameters(), *txt.parameters(), log_t], lr=5e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
proj = torch.randn(40, 10)
for _ in range(15):
    words = torch.randint(0, 40, (24, 3))
    pics = proj[words].mean(1) + 0.1 * torch.randn(24, 10)
    with torch.autocast("cpu", dtype=torch.float16):
        a = nn.functional.normalize(img(pics).float(), dim=1)
        b = nn.functional.normalize(txt(words).float(), dim=1)
        logits = log_t.exp() * (a @ b.T)
        tgt = torch.arange(24)
        loss = (nn.functional.cross_entropy(logits, tgt) + nn.functional.cross_entropy(logits.T, tgt)) / 2
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
    with torch.no_grad():
        log_t.clamp_(0, 4.6)
print(f"RESULT loss={loss.item():.4f} t={log_t.exp().item():.3f}")
