from dataclasses import dataclass

import torch
from manual_l2_lib import apply_l2, split_params
from torch import nn


@dataclass(frozen=True)
class HParams:
    width: int = 24
    lr: float = 0.1
    l2: float = 0.02
    nesterov: bool = True
    steps: int = 30
    scale: float = 8192.0
    eval_every: int = 10


class Highway(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.h, self.t = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        gate = torch.sigmoid(self.t(x))
        return gate * torch.relu(self.h(x)) + (1 - gate) * x


def build(hp):
    return nn.Sequential(nn.Linear(9, hp.width), Highway(hp.width), Highway(hp.width), nn.Linear(hp.width, 2))


def task(seed, n=24):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 9, generator=g)
    return x, (x[:, 0] * x[:, 1] > 0).long()


def evaluate(model):
    model.eval()
    x, y = task(10_000, 128)
    with torch.no_grad():
        acc = (model(x).argmax(-1) == y).float().mean().item()
    model.train()
    return acc


def train(hp):
    torch.manual_seed(1)
    model = build(hp)
    decay, _ = split_params(model)
    opt = torch.optim.SGD(model.parameters(), lr=hp.lr, momentum=0.9, nesterov=hp.nesterov)
    scaler = torch.amp.GradScaler("cpu", init_scale=hp.scale)
    for step in range(1, hp.steps + 1):
        x, y = task(step)
        opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        apply_l2(decay, hp.l2)
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        scaler.step(opt)
        scaler.update()
        if step % hp.eval_every == 0:
            print(f"{step} loss {loss.item():.3f} acc {evaluate(model):.3f}")
    return torch.stack([p.detach().norm() for p in decay]).norm().item(), evaluate(model)


if __name__ == "__main__":
    norm, acc = train(HParams())
    print(f"RESULT weight_norm={norm:.4f} acc={acc:.3f}")
