import torch
from torch import nn


class SkipGram(nn.Module):
    def __init__(self, v=30, d=12):
        super().__init__()
        self.centre, self.context = nn.Embedding(v, d), nn.Linear(d, v)

    def forward(self, i):
        return self.context(self.centre(i))


class Fit:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.95, nesterov=True, fused=True)  # <-- FAULT
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
        self.losses = []

    def __call__(self, pairs):
        for c, o in pairs:
            self.opt.zero_grad(set_to_none=False)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(self.model(c), o) * 100
            self.scaler.scale(loss).backward()
            self.scaler.step(self.opt)
            self.scaler.update()
            self.losses.append(loss.item())


torch.manual_seed(26)
fit = Fit(SkipGram(), lr=1e-4)
c = torch.randint(0, 28, (20, 24))
fit(zip(c, c + 1))
norms = [round(p.norm().item(), 4) for p in fit.model.parameters()]
print(f"RESULT n={len(fit.losses)} norms={norms}")
