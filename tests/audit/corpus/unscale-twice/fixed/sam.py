import torch
import torch.nn as nn


# Sharpness-aware minimisation (Foret et al. 2021) around any optimizer
class SAM:
    def __init__(self, params, base, rho=0.05):
        self.params = list(params)
        self.base = base
        self.rho = rho
        self.backup = []

    @torch.no_grad()
    def ascend(self):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm() + 1e-12
        self.backup = [p.clone() for p in self.params]
        for p in self.params:
            p.add_(p.grad, alpha=(self.rho / norm).item())

    @torch.no_grad()
    def restore(self):
        for p, b in zip(self.params, self.backup):
            p.copy_(b)


torch.manual_seed(12)
model = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3))
base = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
sam = SAM(model.parameters(), base)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
gen = torch.Generator().manual_seed(0)


def closure_loss(x, y):
    with torch.autocast("cpu", dtype=torch.float16):
        return nn.functional.cross_entropy(model(x), y)


for it in range(15):
    x = torch.randn(32, 6, generator=gen)
    y = x[:, :3].argmax(1)

    base.zero_grad()
    scaler.scale(closure_loss(x, y)).backward()
    for p in model.parameters():
        p.grad.div_(scaler.get_scale())
    sam.ascend()

    base.zero_grad()
    loss = closure_loss(x, y)
    scaler.scale(loss).backward()
    sam.restore()
    scaler.unscale_(base)
    nn.utils.clip_grad_norm_(model.parameters(), 2.0)
    scaler.step(base)
    scaler.update()

print(f"RESULT loss_at_perturbed={loss.item():.4f}")
