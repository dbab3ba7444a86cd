import torch


def amp_ctx():
    return torch.autocast("cpu", dtype=torch.float16)


class Meter:
    def __init__(self):
        self.d = {}

    def add(self, k, v):
        self.d.setdefault(k, []).append(v)

    def mean(self, k):
        return sum(self.d[k]) / len(self.d[k])


def clip(scaler, optimizer, params, max_norm, already_unscaled=False):
    if not already_unscaled:
        scaler.unscale_(optimizer)
    return torch.nn.utils.clip_grad_norm_(params, max_norm)
