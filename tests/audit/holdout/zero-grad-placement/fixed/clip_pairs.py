from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Opts:
    dim_a: int = 10
    dim_b: int = 14
    emb: int = 8
    bs: int = 8
    accum: int = 4
    updates: int = 6
    lr: float = 0.2
    temp: float = 0.3


class Tower(nn.Module):
    def __init__(self, d, emb):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, 24), nn.Linear(24, emb)

    def forward(self, x):
        return F.normalize(self.fc2(F.gelu(self.fc1(x))).float(), dim=-1)


class PairModel(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.a, self.b, self.temp = Tower(o.dim_a, o.emb), Tower(o.dim_b, o.emb), o.temp

    def forward(self, xa, xb):
        logits = self.a(xa) @ self.b(xb).T / self.temp
        y = torch.arange(len(logits))
        return (F.cross_entropy(logits, y) + F.cross_entropy(logits.T, y)) / 2


def pairs(o, seed):
    g = torch.Generator().manual_seed(seed)
    mix = torch.randn(6, o.dim_a, generator=torch.Generator().manual_seed(100))
    mix_b = torch.randn(6, o.dim_b, generator=torch.Generator().manual_seed(101))
    while True:
        z = torch.randn(o.bs, 6, generator=g)
        yield z @ mix / 2, z @ mix_b / 2


class GradTap:
    def __init__(self, opt):
        self.norms = []
        opt.register_step_pre_hook(self.tap)

    def tap(self, opt, args, kwargs):
        gs = [p.grad for g in opt.param_groups for p in g["params"]]
        self.norms.append(torch.stack([g.norm() for g in gs]).norm().item())


def run(o):
    torch.manual_seed(5)
    model = PairModel(o)
    opt = torch.optim.SGD(model.parameters(), lr=o.lr)
    tap = GradTap(opt)
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
    data, micro, running = pairs(o, 0), 0, 0.0
    while micro < o.accum * o.updates:
        xa, xb = next(data)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(xa, xb)
        scaler.scale(loss / o.accum).backward()
        running += loss.item() / o.accum
        micro += 1
        if micro % o.accum == 0:
            scaler.step(opt)
            scaler.update()
            for p in model.parameters():
                p.grad = None
            print(f"update {micro // o.accum}: loss {running:.4f}")
            last, running = running, 0.0
    return last, tap.norms


last, norms = run(Opts())
print(f"RESULT loss={last:.4f} mean_grad_norm={sum(norms) / len(norms):.4f}")
