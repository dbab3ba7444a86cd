import torch
from torch.optim import Optimizer


class CompactAdam(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if not st:
                    st["t"] = 0
                    st["m"] = torch.zeros_like(p, dtype=torch.float16)
                    st["r"] = torch.zeros_like(p, dtype=torch.float16)  # rms, not its square
                st["t"] += 1
                g = p.grad
                st["m"].copy_(st["m"] * b1 + g * (1 - b1))
                st["r"].copy_((st["r"].float() ** 2 * b2 + g * g * (1 - b2)).sqrt())
                denom = st["r"].float() + group["eps"]
                corr = (1 - b2 ** st["t"]) ** 0.5 / (1 - b1 ** st["t"])
                p.add_((st["m"] / denom).to(p.dtype), alpha=-group["lr"] * corr)
