import torch
from lightning_fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUMULATE = 4


def main():
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    fabric.seed_everything(4)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer = fabric.setup(model, optimizer)
    x = torch.randn(128, 8)
    loader = fabric.setup_dataloaders(DataLoader(TensorDataset(x, x[:, :1] * 2), batch_size=8))
    first = None
    for i, (inputs, targets) in enumerate(loader):
        is_accumulating = (i + 1) % ACCUMULATE != 0
        with fabric.no_backward_sync(model, enabled=is_accumulating):
            loss = nn.functional.mse_loss(model(inputs), targets)
            fabric.backward(loss)  # <-- FAULT
        if not is_accumulating:
            norm = fabric.clip_gradients(model, optimizer, max_norm=1.0, error_if_nonfinite=False)
            first = first or norm.item()
            optimizer.step()
            optimizer.zero_grad()
    print(f"RESULT first_norm={first:.4f}")


main()
