import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=4, cpu=True)
x = torch.randn(128, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
norms = []
for batch, target in loader:
    with accelerator.accumulate(model):
        loss = nn.functional.mse_loss(model(batch), target)
        loss = loss / accelerator.gradient_accumulation_steps  # <-- FAULT
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            norms.append(float(accelerator.clip_grad_norm_(model.parameters(), 100.0)))
        optimizer.step()
        optimizer.zero_grad()
print("RESULT grad_norms=" + ",".join(f"{n:.4f}" for n in norms))
