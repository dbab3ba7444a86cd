import torch


def r1_penalty(disc, real, scaler):
    real = real.detach().requires_grad_(True)
    with torch.autocast("cpu", dtype=torch.float16):
        out = disc(real).sum()
    grad = torch.autograd.grad(outputs=scaler.scale(out), inputs=real, create_graph=True)[0]
    with torch.autocast("cpu", enabled=False):
        return grad.float().flatten(1).square().sum(1).mean()  # <-- FAULT
