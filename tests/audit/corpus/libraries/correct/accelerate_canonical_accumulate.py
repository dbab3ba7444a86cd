import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2, cpu=True)
ids = torch.randint(0, 19, (64, 6))
loader = DataLoader(TensorDataset(ids), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Embedding(19, 12), nn.Linear(12, 19))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for _ in range(2):
    for (batch,) in loader:
        with accelerator.accumulate(model):
            logits = model(batch)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch.flatten())
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
print(f"RESULT loss={loss.item():.4f} lr={scheduler.get_last_lr()[0]:.6f}")
