"""Small models, losses and data of what lies at the edges: narrow weights, and what is saved of them."""

from __future__ import annotations

import torch
from torch import nn

import truestep


def mse(model, batch):
    return (model(batch[0]) - batch[1]).square().mean()


def linear(seed=0, i=4, o=3):
    torch.manual_seed(seed)
    return nn.Linear(i, o)


def batch(seed=0, n=8, i=4, o=3):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, i, generator=g), torch.randn(n, o, generator=g)


def sgd(params, lr=0.1):
    return torch.optim.SGD(params, lr=lr)


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.G, self.D = nn.Linear(4, 4), nn.Linear(4, 1)


def gan(g_loss=lambda m, x: -m.D(m.G(x)).mean()):
    torch.manual_seed(0)
    model = Gan()
    ug = truestep.Update(model, lambda ps: sgd(ps[:2]), loss=g_loss, policy="bf16-master")
    ud = truestep.Update(
        model, lambda ps: sgd(ps[2:]), loss=lambda m, x: m.D(m.G(x).detach()).mean() - m.D(x).mean(), policy="bf16-master"
    )
    x = torch.randn(8, 4)
    for _ in range(5):
        ud([x])
    return model, ug, ud, x
