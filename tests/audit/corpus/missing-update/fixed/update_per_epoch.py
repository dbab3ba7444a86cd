import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self, n, length=16):
        g = torch.Generator().manual_seed(0)
        self.freq = torch.randint(1, 4, (n,), generator=g)
        t = torch.linspace(0, 6.28, length)
        self.x = torch.sin(self.freq[:, None] * t) + 0.1 * torch.randn(n, length, generator=g)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i].unsqueeze(0), self.freq[i] - 1


def train_one_epoch(epoch, model, loader, optimizer, scaler):
    model.train()
    correct = total = 0
    for batch_idx, (data, target) in enumerate(loader):
        with torch.autocast(device_type="cpu", dtype=torch.float16):
            output = model(data)
            loss = nn.functional.cross_entropy(output, target)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        correct += (output.argmax(1) == target).sum().item()
        total += len(target)
    return correct / total


def main():
    torch.manual_seed(1)
    loader = DataLoader(Waves(96), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Conv1d(1, 6, 5), nn.ReLU(), nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(24, 3))
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    acc = [train_one_epoch(e, model, loader, optimizer, scaler) for e in range(3)]
    print("RESULT acc=" + " ".join(f"{a:.3f}" for a in acc))


if __name__ == "__main__":
    main()
