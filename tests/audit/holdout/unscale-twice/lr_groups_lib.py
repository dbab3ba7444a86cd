import torch
from torch.utils.data import DataLoader, TensorDataset


def param_groups_with_decay(model, lr, head_mult, wd=0.05):
    groups = {}
    for name, p in model.named_parameters():
        mult = head_mult if name.startswith("head") else 1.0
        decay = wd if p.ndim > 1 else 0.0
        groups.setdefault((mult, decay), []).append(p)
    return [{"params": ps, "lr": lr * m, "weight_decay": d} for (m, d), ps in groups.items()]


def build_loaders(n=96, length=24):
    g = torch.Generator().manual_seed(9)
    y = torch.randint(0, 3, (n,), generator=g)
    t = torch.arange(length) / length
    wave = torch.sin(2 * torch.pi * (y[:, None] + 1) * t)
    x = torch.stack([wave, wave.roll(3, 1)], 1) + 0.2 * torch.randn(n, 2, length, generator=g)
    train = DataLoader(TensorDataset(x[:72], y[:72]), batch_size=12, shuffle=True, generator=g)
    return train, DataLoader(TensorDataset(x[72:], y[72:]), batch_size=12)
