import argparse
import contextlib
import pathlib
import shutil
import tempfile

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset


def conv_bn(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Net(nn.Module):
    def __init__(self, w, classes=3):
        super().__init__()
        self.features = nn.Sequential(conv_bn(1, w, 2), conv_bn(w, 2 * w, 2))
        self.fc = nn.Linear(2 * w, classes)

    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


def dataset(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=g)
    x = 0.4 * torch.randn(n, 1, 8, 8, generator=g)
    for k in range(3):
        x[y == k, :, k * 2 : k * 2 + 3, 1:7] += 1.0
    return TensorDataset(x, y)


def accuracy(model, loader):
    training = model.training
    model.eval()
    with torch.no_grad():
        ok = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train(training)
    return ok / len(loader.dataset)


def kd_loss(student, teacher, y, temp, alpha):
    soft = F.kl_div(F.log_softmax(student / temp, 1), F.log_softmax(teacher / temp, 1), log_target=True, reduction="batchmean")
    return alpha * temp**2 * soft + (1 - alpha) * F.cross_entropy(student, y)


class Precision:
    def __init__(self, name):
        self.dtype = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": None}[name]
        self.scaler = torch.amp.GradScaler("cpu", enabled=name == "fp16", init_scale=2.0**18)

    def autocast(self):
        return contextlib.nullcontext() if self.dtype is None else torch.autocast("cpu", dtype=self.dtype)

    def backward_and_step(self, loss, opt, max_norm):
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(opt)
        nn.utils.clip_grad_norm_([p for g in opt.param_groups for p in g["params"]], max_norm)
        before = self.scaler.get_scale()
        self.scaler.step(opt)
        self.scaler.update()
        return self.scaler.get_scale() >= before


def pretrain_teacher(loader, epochs=2):
    teacher = Net(4)
    opt = torch.optim.SGD(teacher.parameters(), lr=0.2, momentum=0.9)
    for _ in range(epochs):
        for x, y in loader:
            opt.zero_grad()
            F.cross_entropy(teacher(x), y).backward()
            opt.step()
    return teacher.eval().requires_grad_(False)


def train_student(args, teacher, train, val, workdir, precision):
    prec = Precision(precision)
    student = Net(args.width)
    ema = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(0.8))
    opt = torch.optim.SGD(student.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4, nesterov=True)
    total = args.epochs * len(train)
    sched = SequentialLR(
        opt,
        [LinearLR(opt, start_factor=0.2, total_iters=3), CosineAnnealingLR(opt, T_max=total)],
        milestones=[3],
    )
    best, completed, skipped = 0.0, 0, 0
    for epoch in range(args.epochs):
        student.train()
        running = 0.0
        for x, y in train:
            with prec.autocast():
                with torch.no_grad():
                    t = teacher(x)
                s = student(x)
            loss = kd_loss(s.float(), t.float(), y, args.temp, args.alpha)
            opt.zero_grad(set_to_none=True)
            if prec.backward_and_step(loss, opt, args.clip):
                completed += 1
                sched.step()
                ema.update_parameters(student)
            else:
                skipped += 1
            running += loss.item() * len(x)
        acc = accuracy(student, val)
        state = {
            "epoch": epoch,
            "student": student.state_dict(),
            "ema": ema.state_dict(),
            "opt": opt.state_dict(),
            "sched": sched.state_dict(),
            "scaler": prec.scaler.state_dict(),
        }
        torch.save(state, workdir / "last.pt")
        if acc >= best:
            best = acc
            shutil.copy(workdir / "last.pt", workdir / "best.pt")
        print(f"{precision} {epoch} loss {running / len(train.dataset):.4f} acc {acc:.3f} lr {sched.get_last_lr()[0]:.4f}")
    update_bn(train, ema)
    return completed, skipped, accuracy(ema, val), int(ema.n_averaged)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--width", type=int, default=3)
    p.add_argument("--lr", type=float, default=0.2)
    p.add_argument("--temp", type=float, default=2.0)
    p.add_argument("--alpha", type=float, default=0.6)
    p.add_argument("--clip", type=float, default=2.0)
    p.add_argument("--precision", nargs="+", default=["fp16", "bf16"])
    args = p.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    train = DataLoader(dataset(96, 0), batch_size=16, shuffle=True, generator=gen)
    val = DataLoader(dataset(48, 1), batch_size=16)
    teacher = pretrain_teacher(train)
    out = []
    for precision in args.precision:
        with tempfile.TemporaryDirectory() as d:
            out.append(train_student(args, teacher, train, val, pathlib.Path(d), precision))
    print("RESULT " + " ".join(f"done={c} skipped={s} ema_acc={a:.3f} ema={n}" for c, s, a, n in out))


if __name__ == "__main__":
    main()
