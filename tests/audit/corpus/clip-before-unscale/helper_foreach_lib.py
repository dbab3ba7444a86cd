import random

import torch

DEFAULT_MAX_NORM = 1.0


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)


def grads_of(optimizer):
    return [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]


@torch.no_grad()
def clip_global_norm(optimizer, max_norm):
    grads = grads_of(optimizer)
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    coef = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    torch._foreach_mul_(grads, coef)  # <-- FAULT
    return norm
