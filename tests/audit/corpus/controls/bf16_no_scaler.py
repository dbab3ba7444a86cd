import torch
from torch import nn

torch.manual_seed(40)
enc = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
head = nn.Linear(16, 3)
model = nn.ModuleList([enc, head])
opt = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
GA = 2
for u in range(6):
    for j in range(GA):
        x = torch.randn(4, 5, 16)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = head(enc(x)).mean(1)
        loss = nn.functional.cross_entropy(logits.float(), x.mean(1)[:, :3].argmax(1))
        (loss * (1 / GA)).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    opt.step()
    opt.zero_grad(set_to_none=True)
print(f"RESULT loss={loss.item():.4f} norm={norm.item():.4f}")
