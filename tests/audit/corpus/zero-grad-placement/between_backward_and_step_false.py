import torch
from torch import nn


class Fitter(object):
    def __init__(self, n):
        self.w = nn.Linear(n, n)
        self.opt = torch.optim.SGD(self.w.parameters(), lr=0.2, momentum=0.9)
        self.sc = torch.amp.GradScaler("cpu", init_scale=2.0**9)

    def _loss(self, a):
        with torch.autocast("cpu", dtype=torch.float16):
            return nn.functional.cosine_embedding_loss(self.w(a), a.flip(-1), torch.ones(len(a)))

    def run(self, iters):
        for _ in range(iters):
            loss = self._loss(torch.randn(24, self.w.in_features))
            self.sc.scale(loss).backward()
            self.opt.zero_grad(set_to_none=False)  # <-- FAULT
            self.sc.step(self.opt)
            self.sc.update()
        return loss.item()


torch.manual_seed(44)
f = Fitter(6)
w = f.w.weight.detach().clone()
out = f.run(30)
print("RESULT cos_loss=%.4f moved=%.4g" % (out, (f.w.weight - w).norm().item()))
