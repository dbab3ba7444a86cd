import functools
import math
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, 3, (n,), generator=g)
        self.x = 0.7 * torch.randn(n, 1, 6, 6, generator=g)
        for i, k in enumerate(self.y.tolist()):
            self.x[i, 0, k * 2 : k * 2 + 2] += 1.0

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"image": self.x[i], "label": self.y[i]}


class Patches(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.conv = nn.Conv2d(1, d, 2, stride=2)
        self.pos = nn.Parameter(torch.zeros(9, d))

    def forward(self, x):
        h = self.conv(x).flatten(2).transpose(1, 2)
        return h + self.pos.to(h.dtype)


class Mixer(nn.Module):
    def __init__(self, d, tokens=9):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.tok, self.chan = nn.Linear(tokens, tokens), nn.Linear(d, d)

    def forward(self, h):
        h = h + self.tok(self.n1(h).transpose(1, 2)).transpose(1, 2)
        return h + F.gelu(self.chan(self.n2(h)))


def network(d, depth):
    blocks = OrderedDict((f"b{i}", Mixer(d)) for i in range(depth))
    return nn.Sequential(OrderedDict(patch=Patches(d), blocks=nn.Sequential(blocks), pool=Pool(), cls=nn.Linear(d, 3)))


class Pool(nn.Module):
    def forward(self, h):
        return h.mean(1)


class Delta(nn.Module):
    def __init__(self, inner, rank):
        super().__init__()
        self.inner = inner
        self.a = nn.Parameter(torch.randn(rank, inner.in_features) / math.sqrt(inner.in_features))
        self.b = nn.Parameter(torch.zeros(inner.out_features, rank))

    def forward(self, x):
        return self.inner(x) + F.linear(F.linear(x, self.a), self.b)


def attach(root, rank, match):
    for name, module in list(root.named_modules()):
        if isinstance(module, nn.Linear) and match(name):
            parent = root.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], Delta(module, rank))
    return root


def soften(student, teacher, label, T=2.0, mix=0.5):
    kl = F.kl_div((student / T).log_softmax(1), (teacher / T).log_softmax(1), log_target=True, reduction="batchmean")
    return mix * T * T * kl + (1 - mix) * F.cross_entropy(student, label)


amp = functools.partial(torch.autocast, "cpu", dtype=torch.float16)


def pretrain(net, loader):
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for b in loader:
        opt.zero_grad()
        F.cross_entropy(net(b["image"]), b["label"]).backward()
        opt.step()
    return net


def accuracy(net, data):
    net.eval()
    with torch.inference_mode(), amp():
        logits = net(data.x)
    net.train()
    return (logits.argmax(1) == data.y).float().mean().item()


def main():
    torch.manual_seed(3)
    train, val = Shapes(96, 1), Shapes(48, 2)
    load = functools.partial(DataLoader, train, batch_size=12, shuffle=True)
    teacher = pretrain(network(12, 2), load(generator=torch.Generator().manual_seed(0)))
    teacher = teacher.half().eval().requires_grad_(False)
    student = network(8, 1)
    student.requires_grad_(False)
    attach(student, 2, lambda n: n.startswith("blocks"))
    student.cls.requires_grad_(True)
    trainable = {n: p for n, p in student.named_parameters() if p.requires_grad}
    assert all(p.dtype is torch.float32 for p in trainable.values())
    opt = torch.optim.SGD(trainable.values(), lr=0.2, momentum=0.9, nesterov=True)
    plan = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.2, total_steps=16, cycle_momentum=False)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**17)
    tally = {True: 0, False: 0}
    for epoch in range(2):
        for batch in load(generator=torch.Generator().manual_seed(epoch + 1)):
            x, y = batch["image"], batch["label"]
            with torch.no_grad():
                goal = teacher(x.half()).float()
            with amp():
                out = student(x)
            loss = soften(out.float(), goal, y)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(trainable.values(), 1.0, foreach=False)
            scale = scaler.get_scale()
            scaler.step(opt)
            scaler.update()
            applied = scaler.get_scale() >= scale
            tally[applied] += 1
            if applied:
                plan.step()
            for p in trainable.values():
                p.grad = None
    print(
        f"RESULT applied={tally[True]} skipped={tally[False]} ticks={plan.last_epoch} acc={accuracy(student, val):.3f} loss={loss.item():.4f}"
    )


if __name__ == "__main__":
    main()
