import torch
from torch import nn


class RunningNorm(nn.Module):
    def __init__(self, dim, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("sq", torch.ones(dim))

    @torch.no_grad()
    def observe(self, x):
        moments = torch.stack([x.mean(0), x.square().mean(0)])
        state = torch.stack([self.mean, self.sq]).lerp(moments, self.momentum)
        self.mean, self.sq = state.unbind()  # <-- FAULT

    def forward(self, x):
        if self.training:
            self.observe(x)
        std = (self.sq - self.mean.square()).clamp_min(1e-4).sqrt()
        return (x - self.mean) / std


class Critic(nn.Module):
    def __init__(self, obs, hidden):
        super().__init__()
        self.norm = RunningNorm(obs)
        self.net = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(self.norm(x))
