import copy

import torch


class EMA:
    def __init__(self, model, beta):
        self.online, self.beta, self.n = model, beta, 0
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)

    def decay(self):
        return min(self.beta, (1 + self.n) / (10 + self.n))

    @torch.no_grad()
    def update(self):
        d = self.decay()
        self.n += 1
        for s, p in zip(self.shadow.parameters(), self.online.parameters(), strict=True):
            s.lerp_(p, 1 - d)
        for s, b in zip(self.shadow.buffers(), self.online.buffers(), strict=True):
            s.copy_(b)


def toy_data(seed, n):
    g = torch.Generator().manual_seed(seed)
    while True:
        ang = torch.rand(n, generator=g) * 6.2832
        yield torch.stack([ang.cos(), ang.sin()], 1) + 0.05 * torch.randn(n, 2, generator=g)
