import tempfile
from pathlib import Path

import torch
from torch import nn


class Conf:
    lr = 0.05
    steps = 22
    decay = 0.9
    scale = 2.0**19
    keep = 2


class Quantile(nn.Module):
    def __init__(self, d=7, taus=(0.1, 0.5, 0.9)):
        super().__init__()
        self.register_buffer("taus", torch.tensor(taus))
        self.body = nn.Sequential(nn.Linear(d, 20), nn.Mish(), nn.Linear(20, len(taus)))

    def loss(self, x, y):
        err = y.unsqueeze(1) - self.body(x).float()
        return torch.maximum(self.taus * err, (self.taus - 1) * err).mean() * 8


def sample(g, n=32):
    x = torch.randn(n, 7, generator=g)
    return x, x[:, 0] + torch.randn(n, generator=g) * x[:, 1].abs()


class Checkpointer:
    def __init__(self, root, keep):
        self.root, self.keep, self.files = Path(root), keep, []

    def save(self, tag, **objs):
        path = self.root / f"ckpt_{tag}.pt"
        torch.save({k: v.state_dict() for k, v in objs.items()}, path)
        self.files.append(path)
        while len(self.files) > self.keep:
            self.files.pop(0).unlink()


def fit(c, root):
    torch.manual_seed(14)
    g = torch.Generator().manual_seed(15)
    model = Quantile()
    opt = torch.optim.Adam(model.parameters(), lr=c.lr, amsgrad=True)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=c.decay)
    scaler = torch.amp.GradScaler("cpu", init_scale=c.scale)
    ckpt = Checkpointer(root, c.keep)
    for i in range(c.steps):
        x, y = sample(g)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model.loss(x, y)
        scaler.scale(loss).backward()
        old = scaler.get_scale()
        scaler.step(opt)
        scaler.update()
        value = loss.item()
        if scaler.get_scale() >= old:
            sched.step()
        if (i + 1) % 8 == 0:
            ckpt.save(i + 1, model=model, opt=opt, sched=sched, scaler=scaler)
            print(f"{i + 1}: loss {value:.4f} scale {old:.0f} lr {sched.get_last_lr()[0]:.4f}")
    return model, opt, sched, value


with tempfile.TemporaryDirectory() as tmp:
    model, opt, sched, value = fit(Conf, tmp)
done = int(next(iter(opt.state.values()))["step"].item())
print(f"RESULT attempts={Conf.steps} completed={done} ticks={sched.last_epoch} lr={sched.get_last_lr()[0]:.5f} loss={value:.4f}")
