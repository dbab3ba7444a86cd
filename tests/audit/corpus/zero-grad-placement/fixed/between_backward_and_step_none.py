import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(13)
ds = TensorDataset(torch.randn(80, 1, 12), torch.randint(0, 2, (80,)))
model = nn.Sequential(nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.Hardswish(), nn.Flatten(), nn.Linear(40, 2))
optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
seen = 0
for inputs, labels in DataLoader(ds, batch_size=16):
    # forward
    with torch.autocast("cpu", dtype=torch.float16):
        outputs = model(inputs)
        loss = nn.functional.cross_entropy(outputs, labels)
    optimizer.zero_grad()
    # backward
    scaler.scale(loss).backward()
    # step
    scaler.step(optimizer)
    scaler.update()
    seen += len(labels)
print(f"RESULT seen={seen} loss={loss.item():.4f}")
