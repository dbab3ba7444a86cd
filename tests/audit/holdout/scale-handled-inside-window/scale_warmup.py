import itertools

import torch
from torch import nn

GRAD_ACC = 3
SCALE_PLAN = {0: 128.0, 4: 2048.0, 10: 32768.0}


class Denoiser(nn.Module):
    def __init__(self, d=10, w=24):
        super().__init__()
        self.time = nn.Embedding(8, w)
        self.inp = nn.Linear(d, w)
        self.out = nn.Linear(w, d)

    def forward(self, x, t):
        return self.out(torch.tanh(self.inp(x) + self.time(t)))


def stream(gen, d=10):
    betas = torch.linspace(0.05, 0.4, 8)
    abar = torch.cumprod(1 - betas, 0)
    while True:
        x0 = torch.randn(16, d, generator=gen) * 0.2 + torch.linspace(-1, 1, d)
        t = torch.randint(0, 8, (16,), generator=gen)
        eps = torch.randn(16, d, generator=gen)
        a = abar[t].unsqueeze(1)
        yield a.sqrt() * x0 + (1 - a).sqrt() * eps, t, eps


class Loop:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=SCALE_PLAN[0], growth_interval=10_000)
        self.micro = 0
        self.updates = 0
        self.norms = []

    def maybe_set_scale(self):
        new = SCALE_PLAN.get(self.micro)
        if new is not None and self.micro > 0:
            self.scaler.update(new)  # <-- FAULT

    def run_step(self, xt, t, eps):
        self.maybe_set_scale()
        with torch.autocast("cpu", dtype=torch.float16):
            pred = self.model(xt, t)
            loss = nn.functional.mse_loss(pred, eps)
        self.scaler.scale(loss / GRAD_ACC).backward()
        self.micro += 1
        if self.micro % GRAD_ACC == 0:
            self.optimize()
        return loss.item()

    def optimize(self):
        self.scaler.unscale_(self.opt)
        total = torch.stack([p.grad.norm() for p in self.model.parameters()]).norm()
        self.norms.append(total.item())
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad(set_to_none=True)
        self.updates += 1


torch.manual_seed(13)
loop = Loop(Denoiser(), lr=0.2)
gen = torch.Generator().manual_seed(1)
history = [loop.run_step(*b) for b in itertools.islice(stream(gen), 15)]
print("loss", " ".join(f"{v:.3f}" for v in history))
print(f"RESULT updates={loop.updates} scale={loop.scaler.get_scale():.0f} norms={','.join(f'{n:.4f}' for n in loop.norms)}")
