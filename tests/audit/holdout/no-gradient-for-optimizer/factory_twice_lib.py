import torch
from torch import nn

MODELS = {}


def register(fn):
    MODELS[fn.__name__] = fn
    return fn


@register
def mlp(width=16, depth=2, n_in=8, n_out=3):
    layers, last = [], n_in
    for _ in range(depth):
        layers += [nn.Linear(last, width), nn.LayerNorm(width), nn.ReLU()]
        last = width
    return nn.Sequential(*layers, nn.Linear(last, n_out))


class Recipe:
    def __init__(self, name, lr, wd, **kw):
        self.name, self.lr, self.wd, self.kw = name, lr, wd, kw

    @property
    def model(self):
        return MODELS[self.name](**self.kw)

    def optimizer(self):
        split = {True: [], False: []}
        for p in self.model.parameters():
            split[p.ndim > 1].append(p)
        groups = [{"params": split[True], "weight_decay": self.wd}, {"params": split[False], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=self.lr)  # <-- FAULT
