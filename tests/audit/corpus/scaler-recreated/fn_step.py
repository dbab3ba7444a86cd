import torch
import torch.nn.functional as F
from torch import nn


def train_step(model, optimizer, batch):
    scaler = torch.amp.GradScaler("cpu")  # <-- FAULT
    x, y = batch
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device_type="cpu", dtype=torch.float16):
        loss = F.mse_loss(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.item()


def main():
    torch.manual_seed(19)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    start = model[2].bias.item()
    losses = []
    for _ in range(25):
        x = torch.rand(32, 4) * 4
        y = x.prod(1, keepdim=True).sqrt() * 4
        losses.append(train_step(model, optimizer, (x, y)))
    print(f"RESULT bias_shift={abs(model[2].bias.item() - start):.4f} last_loss={losses[-1]:.3f}")


if __name__ == "__main__":
    main()
