import torch
from torch import nn

torch.manual_seed(6)
gradient_accumulation_steps = 2
model = nn.Sequential(nn.Embedding(12, 6), nn.Flatten(), nn.Linear(24, 12))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler(device="cpu", init_scale=1024.0)
completed_steps = 0

for step, ids in enumerate(torch.randint(0, 12, (16, 8, 4))):
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(ids), ids[:, -1])
    scaler.scale(loss / gradient_accumulation_steps).backward()
    if (step + 1) % gradient_accumulation_steps == 0:
        scaler.step(optimizer)
        optimizer.zero_grad()
        completed_steps += 1
        scaler.update()
print(f"RESULT completed_steps={completed_steps} loss={loss.item():.4f}")
