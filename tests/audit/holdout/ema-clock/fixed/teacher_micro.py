import copy

import torch
import torch.nn.functional as F
from torch import nn

MOMENTUM = 0.9


def mlp(d_in, d_h, d_out):
    return nn.Sequential(nn.Linear(d_in, d_h), nn.LayerNorm(d_h), nn.ReLU(), nn.Linear(d_h, d_out))


class Byol(nn.Module):
    def __init__(self, d=12, p=8):
        super().__init__()
        self.online = mlp(d, 24, p)
        self.pred = mlp(p, 16, p)
        self.teacher = copy.deepcopy(self.online).requires_grad_(False)
        self.teacher_updates = 0

    def forward(self, a, b):
        with torch.no_grad():
            ta, tb = self.teacher(a).float(), self.teacher(b).float()
        pa, pb = self.pred(self.online(a)).float(), self.pred(self.online(b)).float()
        return 2 - F.cosine_similarity(pa, tb).mean() - F.cosine_similarity(pb, ta).mean()

    @torch.no_grad()
    def update_teacher(self, m=MOMENTUM):
        self.teacher_updates += 1
        torch._foreach_lerp_(list(self.teacher.parameters()), list(self.online.parameters()), 1 - m)


def views(bs=16, d=12, seed=0):
    g = torch.Generator().manual_seed(seed)
    while True:
        z = torch.randn(bs, d, generator=g)
        yield z + 0.2 * torch.randn(bs, d, generator=g), z + 0.2 * torch.randn(bs, d, generator=g)


class PreTrainer:
    def __init__(self, accumulate=4, updates=6, lr=0.3):
        self.model = Byol()
        learned = [*self.model.online.parameters(), *self.model.pred.parameters()]
        self.opt = torch.optim.SGD(learned, lr=lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        self.accumulate, self.total = accumulate, accumulate * updates
        self.updates = 0

    def fit(self):
        feed = views()
        self.opt.zero_grad()
        for i in range(1, self.total + 1):
            a, b = next(feed)
            with torch.autocast("cpu", dtype=torch.float16):
                loss = self.model(a, b)
            self.scaler.scale(loss / self.accumulate).backward()
            if i % self.accumulate == 0:
                before = self.scaler.get_scale()
                self.scaler.step(self.opt)
                self.scaler.update()
                self.opt.zero_grad()
                ok = self.scaler.get_scale() >= before
                self.updates += ok
                if ok:
                    self.model.update_teacher()
                print(f"update {self.updates} loss {loss.item():.4f}")
        return loss.item()

    def lag(self):
        pairs = zip(self.model.online.parameters(), self.model.teacher.parameters(), strict=True)
        return sum((p - q).norm().item() for p, q in pairs)


torch.manual_seed(22)
pt = PreTrainer()
loss = pt.fit()
print(f"RESULT updates={pt.updates} teacher_updates={pt.model.teacher_updates} lag={pt.lag():.4f} loss={loss:.4f}")
