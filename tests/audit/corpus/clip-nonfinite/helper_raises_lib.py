from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Hyper:
    seed: int = 3
    dim: int = 6
    lr: float = 1e-2
    wd: float = 0.01
    max_norm: float = 5.0
    init_scale: float = 2.0**21
    steps: int = 20


def make_data(hp):
    for _ in range(hp.steps):
        x = torch.randn(32, hp.dim)
        yield x, 3 * x.roll(1, dims=1)


def finish_update(net, opt, scaler, hp):
    scaler.unscale_(opt)
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), hp.max_norm, error_if_nonfinite=True)  # <-- FAULT
    scaler.step(opt)
    scaler.update()
    opt.zero_grad(set_to_none=True)
    return norm
