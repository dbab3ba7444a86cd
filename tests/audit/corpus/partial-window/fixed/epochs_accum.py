import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_data():
    g = torch.Generator().manual_seed(4)
    x = torch.randn(80, 1, 6, 6, generator=g)
    y = (x.mean((1, 2, 3)) > 0).long()
    return TensorDataset(x, y)


def train_one_epoch(model, loader, optimizer, scaler, accum_steps, stats):
    model.train()
    for step, (x, y) in enumerate(loader):
        in_window = min(accum_steps, len(loader) - step // accum_steps * accum_steps)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y) / in_window
        scaler.scale(loss).backward()
        stats["pending"] += 1
        if step % accum_steps == accum_steps - 1 or step == len(loader) - 1:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            stats["windows"].append(stats["pending"])
            stats["pending"] = 0


def main():
    torch.manual_seed(4)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    loader = DataLoader(make_data(), batch_size=8, shuffle=True)
    stats = {"pending": 0, "windows": []}
    for _ in range(3):
        train_one_epoch(model, loader, optimizer, scaler, 4, stats)
    print(f"RESULT windows={'+'.join(map(str, stats['windows']))} never_applied={stats['pending']}")


if __name__ == "__main__":
    main()
