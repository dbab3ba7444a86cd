import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(16)
ds = TensorDataset(torch.randn(96, 7), torch.randn(96, 1))
train_loader = DataLoader(ds, batch_size=24, shuffle=True)
model = nn.Sequential(nn.Linear(7, 14), nn.ReLU(), nn.Dropout(0.1), nn.Linear(14, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, nesterov=True, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
epoch_losses = []
for epoch in range(4):
    running_loss = 0.0
    for xb, yb in train_loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(xb), yb)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        running_loss += loss.item() * len(xb)
    epoch_losses.append(running_loss / len(ds))
print("RESULT train_loss " + " ".join(f"{v:.4f}" for v in epoch_losses))
