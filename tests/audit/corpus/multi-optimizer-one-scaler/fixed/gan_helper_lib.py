import torch
from torch.nn.functional import binary_cross_entropy_with_logits as bce


def bce_ones(logits):
    return bce(logits, torch.ones_like(logits))


def bce_zeros(logits):
    return bce(logits, torch.zeros_like(logits))


class Stepper:
    def __init__(self, **kw):
        self.scaler = torch.amp.GradScaler("cpu", **kw)
        self.calls = 0

    def step(self, optimizer):
        self.scaler.step(optimizer)
        self.calls += 1
