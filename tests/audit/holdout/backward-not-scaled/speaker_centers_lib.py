import torch
from torch import nn


class CenterLoss(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.centers = nn.Parameter(torch.zeros(n, d))

    def forward(self, emb, y):
        return (emb.float() - self.centers[y]).pow(2).sum(-1).mean() / 2

    def backward(self, emb, y, weight, scaler=None):
        loss = weight * self(emb, y)
        loss.backward()  # <-- FAULT
        return loss.item()


def utterances(args, n, seed, bs=10, frames=14):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(args["spk"], args["feat"], 1, generator=torch.Generator().manual_seed(1))
    for _ in range(n):
        y = torch.randint(0, args["spk"], (bs,), generator=g)
        yield proto[y] + 0.5 * torch.randn(bs, args["feat"], frames, generator=g), y
