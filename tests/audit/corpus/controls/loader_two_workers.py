import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        f = i % 3 + 1
        t = torch.linspace(0, 6.28, 16)
        return torch.sin(f * t + torch.rand(1, generator=g) * 6.28), i % 3


def main():
    torch.manual_seed(44)
    loader = DataLoader(Waves(), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)
    net = nn.Sequential(nn.Unflatten(1, (1, 16)), nn.Conv1d(1, 8, 5), nn.ReLU(), nn.Flatten(), nn.Linear(96, 3))
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(2):
        for i, (x, y) in enumerate(loader, 1):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(net(x), y)
            scaler.scale(loss / 3).backward()
            if i % 3 == 0:
                scaler.step(opt)
                scaler.update()
                opt.zero_grad()
    print(f"RESULT loss={loss.item():.4f}")


if __name__ == "__main__":
    main()
