import torch


def split_params(model):
    decay, skip = [], []
    for p in model.parameters():
        (decay if p.ndim > 1 else skip).append(p)
    return decay, skip


@torch.no_grad()
def apply_l2(params, coeff):
    for p in params:
        if p.grad is not None:
            p.grad.add_(p, alpha=coeff)
