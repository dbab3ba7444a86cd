import collections
import copy
import os
import tempfile

import torch
from torch import nn

P = collections.namedtuple("P", "dim queue momentum temp lr wd epochs per_epoch bs accum")
HP = P(dim=8, queue=32, momentum=0.95, temp=0.2, lr=0.05, wd=1e-4, epochs=3, per_epoch=7, bs=6, accum=2)


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c1 = nn.Conv2d(1, 6, 3, padding=1, bias=False)
        self.n1 = nn.BatchNorm2d(6)
        self.c2 = nn.Conv2d(6, 8, 3, stride=2, bias=False)
        self.n2 = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8, dim)

    def forward(self, x):
        x = self.n1(self.c1(x)).relu()
        x = self.n2(self.c2(x)).relu()
        return nn.functional.normalize(self.fc(x.mean((2, 3))).float(), dim=1)


class MoCo(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.q = Encoder(hp.dim)
        self.k = copy.deepcopy(self.q).requires_grad_(False)
        self.m, self.t = hp.momentum, hp.temp
        self.register_buffer("bank", nn.functional.normalize(torch.randn(hp.queue, hp.dim), dim=1))
        self.register_buffer("at", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def follow(self):
        for a, b in zip(self.k.parameters(), self.q.parameters()):
            a.lerp_(b, 1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        where = (int(self.at) + torch.arange(len(keys))) % len(self.bank)
        self.bank[where] = keys
        self.at.fill_((int(self.at) + len(keys)) % len(self.bank))

    def forward(self, xq, xk):
        q = self.q(xq)
        with torch.no_grad():
            k = self.k(xk)
        with torch.autocast("cpu", enabled=False):
            pos = (q * k).sum(1, keepdim=True)
            neg = q @ self.bank.clone().t()
            logits = torch.cat([pos, neg], 1) / self.t
        return nn.functional.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long)), k


def augment(x, g):
    if torch.rand((), generator=g) < 0.5:
        x = x.flip(-1)
    return x + 0.2 * torch.randn(x.shape, generator=g)


def stream(hp, epoch):
    g = torch.Generator().manual_seed(epoch)
    for _ in range(hp.per_epoch):
        x = torch.randn(hp.bs, 1, 1, 1, generator=g) + torch.linspace(-1, 1, 6) * torch.randn(hp.bs, 1, 6, 1, generator=g)
        yield augment(x, g), augment(x, g)


def windows(it, n):
    held = []
    for item in it:
        held.append(item)
        if len(held) == n:
            yield held
            held = []
    if held:
        yield held


def sgd_groups(model, hp):
    norm = {id(p) for m in model.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters()}
    live = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in live if id(p) not in norm], "weight_decay": hp.wd},
        {"params": [p for p in live if id(p) in norm], "weight_decay": 0},
    ]


def train(hp, folder):
    torch.manual_seed(0)
    model = MoCo(hp)
    opt = torch.optim.SGD(sgd_groups(model, hp), lr=hp.lr, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, hp.epochs)
    path, done, start = os.path.join(folder, "moco.pt"), 0, 0
    for attempt in range(2):
        if os.path.exists(path):
            disk = torch.load(path)
            start, done = disk["epoch"], disk["done"]
            for name, part in (("model", model), ("opt", opt), ("sched", sched)):
                part.load_state_dict(disk[name])
        for epoch in range(start, hp.epochs):
            losses = []
            for window in windows(stream(hp, epoch), hp.accum):
                opt.zero_grad()
                total = 0.0
                for xq, xk in window:
                    with torch.autocast("cpu", dtype=torch.bfloat16):
                        loss, keys = model(xq, xk)
                    (loss / len(window)).backward()
                    total += loss.item() / len(window)
                    model.enqueue(keys)
                nn.utils.clip_grad_norm_(model.q.parameters(), 1.0)
                opt.step()
                model.follow()
                done += 1
                losses.append(total)
            sched.step()
            state = {
                "epoch": epoch + 1,
                "done": done,
                "model": model.state_dict(),
                "opt": opt.state_dict(),
                "sched": sched.state_dict(),
            }
            torch.save(state, path)
            if attempt == 0 and epoch == 1:
                break
    return done, sum(losses) / len(losses), float(model.bank.sum())


with tempfile.TemporaryDirectory() as folder:
    done, mean, bank = train(HP, folder)
print(f"RESULT updates={done} last_epoch_loss={mean:.4f} bank={bank:.3f}")
