from torch import nn


class LowRank(nn.Module):
    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        dtype, dev = base.weight.dtype, base.weight.device
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)
        self.to(dev, dtype)  # <-- FAULT

    def forward(self, x):
        return self.base(x) + self.scale * self.up(self.down(x))


def inject(model, targets, rank=2, alpha=4):
    model.requires_grad_(False)
    for name, child in list(model.named_modules()):
        for leaf, module in list(child.named_children()):
            if leaf in targets and isinstance(module, nn.Linear):
                setattr(child, leaf, LowRank(module, rank, alpha))
    return [p for p in model.parameters() if p.requires_grad]


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.o = nn.Linear(d, d)

    def forward(self, x):
        q, v = self.q(x), self.v(x)
        w = (q @ x.to(q.dtype).transpose(1, 2) / x.shape[-1] ** 0.5).softmax(-1)
        return x + self.o(w.to(v.dtype) @ v)
