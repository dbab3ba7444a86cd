from dataclasses import dataclass

import torch


@dataclass
class TrainState:
    attempts: int = 0
    global_step: int = 0
    samples_seen: int = 0
    last_scale: float = 0.0


def spectra(bs, seed, bands=14):
    g = torch.Generator().manual_seed(seed)
    axis = torch.linspace(-2, 2, bands)
    while True:
        c = torch.rand(bs, generator=g) * 2 - 1
        peak = torch.exp(-((axis - c.unsqueeze(1)) ** 2) * 3)
        yield peak + 0.05 * torch.randn(bs, bands, generator=g), 30 * c
