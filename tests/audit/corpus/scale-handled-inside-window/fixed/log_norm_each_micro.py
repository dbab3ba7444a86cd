import torch
import torch.nn as nn


class MicroTrainer:
    def __init__(self, model, lr, accum, amp_dtype=torch.float16):
        self.model, self.accum, self.amp_dtype = model, accum, amp_dtype
        self.opt = torch.optim.SGD(model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
        self.micro = 0
        self.gnorm = None

    def grad_norm(self):
        return torch.stack([p.grad.norm() for p in self.model.parameters()]).norm().item() / self.scaler.get_scale()

    def step(self, x, y):
        with torch.autocast("cpu", dtype=self.amp_dtype):
            loss = nn.functional.mse_loss(self.model(x), y) / self.accum
        self.scaler.scale(loss).backward()
        self.gnorm = self.grad_norm()
        self.micro += 1
        if self.micro % self.accum == 0:
            self.scaler.step(self.opt)
            self.scaler.update()
            self.opt.zero_grad()


def run():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    tr = MicroTrainer(model, lr=0.1, accum=3)
    xs = torch.randn(36, 8, 3) + torch.tensor([[[0.0]], [[2.0]], [[-2.0]]]).repeat(12, 1, 1)
    for x in xs:
        tr.step(x, x.sum(-1, keepdim=True))
    with torch.no_grad():
        flat = xs.reshape(-1, 3)
        return (model(flat) - flat.sum(-1, keepdim=True)).pow(2).mean().item()


print(f"RESULT mse_all={run():.4f}")
