import torch
from torch import nn


class TinyMoE(nn.Module):
    def __init__(self, d, experts):
        super().__init__()
        self.router = nn.Linear(d, experts)
        self.experts = nn.ModuleList(nn.Linear(d, d) for _ in range(experts))

    def forward(self, x):
        gates = torch.softmax(self.router(x), dim=-1)
        stacked = torch.stack([e(x) for e in self.experts], dim=1)
        return (gates.unsqueeze(-1) * stacked).sum(1), gates


def balance_backward(gates, weight):
    load = gates.float().mean(0)
    penalty = weight * len(load) * (load * load).sum()
    penalty.backward()  # <-- FAULT
    return penalty.detach()
