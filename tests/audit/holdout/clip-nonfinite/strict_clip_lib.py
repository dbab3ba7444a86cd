import torch
from torch import nn


def build_optimizer(name, model, lr):
    decay = [p for p in model.parameters() if p.ndim >= 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": decay, "weight_decay": 1e-2}, {"params": rest, "weight_decay": 0.0}]
    if name == "adamw":
        return torch.optim.AdamW(groups, lr=lr)
    return torch.optim.SGD(groups, lr=lr, momentum=0.9)


def clip_gradients(model, max_norm, norm_type=2.0):
    params = [p for p in model.parameters() if p.grad is not None]
    if max_norm <= 0 or not params:
        return torch.zeros(())
    return nn.utils.clip_grad_norm_(params, max_norm, norm_type=norm_type, error_if_nonfinite=True)  # <-- FAULT
