import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.reduce = nn.Conv2d(c, c // 2, 1)
        self.expand = nn.Conv2d(c // 2, c, 3, padding=1)

    def forward(self, x):
        return torch.relu(x + self.expand(torch.relu(self.reduce(x))))


class DepthHead(nn.Module):
    def __init__(self, c, bins=6, lo=0.5, hi=8.0):
        super().__init__()
        self.logit = nn.Conv2d(c, bins, 1)
        self.register_buffer("centers", torch.linspace(lo, hi, bins))

    @torch.autocast("cpu", enabled=False)
    def forward(self, feats):
        p = self.logit(feats.float()).softmax(1)
        return torch.einsum("bkhw,k->bhw", p, self.centers)


class DepthNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.body = Bottleneck(c)
        self.head = DepthHead(c)

    def forward(self, x):
        return self.head(self.body(self.stem(x)))


def silog(pred, gt, lam=0.85):
    d = pred.clamp_min(1e-3).log() - gt.log()
    return d.pow(2).mean() - lam * d.mean().pow(2)
