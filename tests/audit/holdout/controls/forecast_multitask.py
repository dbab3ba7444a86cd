import math
import time

import torch
from forecast_multitask_lib import Ledger, MultiTask, Progress, series_loader
from torch import nn


class Settings:
    epochs = 2
    micro = 6
    accumulate = 4
    batches_per_epoch = 14
    lr = 0.03
    clip = 1.0
    noise = 1e-4
    l2 = 1e-3
    init_scale = 2.0**20
    max_skips_in_a_row = 12


class AmpOptimizer:
    def __init__(self, model, settings, total_updates):
        self.model, self.s = model, settings
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.opt = torch.optim.SGD(self.params, lr=settings.lr, momentum=0.9)
        self.sched = torch.optim.lr_scheduler.PolynomialLR(self.opt, total_iters=total_updates, power=1.5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=settings.init_scale, growth_interval=4)
        self.gen = torch.Generator().manual_seed(5)
        self.row = 0

    def backward(self, losses, share):
        names = list(losses)
        for k, name in enumerate(names):
            keep = k + 1 < len(names)
            self.scaler.scale(losses[name] * share).backward(retain_graph=keep)

    @torch.no_grad()
    def regularize(self):
        for p in self.params:
            if p.ndim > 1:
                p.grad.add_(p, alpha=self.s.l2)
            p.grad.add_(torch.randn(p.shape, generator=self.gen), alpha=self.s.noise)

    def norms(self):
        out = {}
        for name, p in self.model.named_parameters():
            key = name.split(".")[0]
            out[key] = out.get(key, 0.0) + p.grad.square().sum().item()
        return {k: math.sqrt(v) for k, v in out.items()}

    def step(self):
        self.scaler.unscale_(self.opt)
        self.regularize()
        norms = self.norms()
        nn.utils.clip_grad_norm_(self.params, self.s.clip)
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.model.zero_grad(set_to_none=True)
        stepped = self.scaler.get_scale() >= before
        self.row = 0 if stepped else self.row + 1
        if self.row > self.s.max_skips_in_a_row:
            raise RuntimeError(f"{self.row} skipped attempts in a row at scale {before}")
        if stepped:
            self.sched.step()
        return stepped, norms

    def state_dict(self):
        return {"opt": self.opt.state_dict(), "sched": self.sched.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state):
        for name in ("opt", "sched", "scaler"):
            getattr(self, name).load_state_dict(state[name])


def run_epoch(model, amp, s, ledger, progress, seed):
    model.train()
    plan = [min(s.accumulate, s.batches_per_epoch - k) for k in range(0, s.batches_per_epoch, s.accumulate)]
    stream = series_loader(s.micro, s.batches_per_epoch, seed)
    for size in plan:
        tic = time.perf_counter()
        steps_in = 0
        total = dict.fromkeys(model.heads, 0.0)
        for _ in range(size):
            x, targets = next(stream)
            with torch.autocast("cpu", dtype=torch.float16):
                losses = model.losses(x, targets)
            amp.backward(losses, 1.0 / size)
            for k, v in losses.items():
                total[k] += v.item() / size
            steps_in += x.size(0) * x.size(1)
        stepped, norms = amp.step()
        ledger.add(stepped, steps_in)
        progress.show(total, norms, steps_in / (time.perf_counter() - tic))
    return total


@torch.no_grad()
def validate(model, s):
    model.eval()
    tot = n = 0
    for x, targets in series_loader(s.micro, 4, seed=1000):
        losses = model.losses(x, targets)
        tot, n = tot + sum(v.item() for v in losses.values()) * len(x), n + len(x)
    return tot / n


def main():
    s = Settings()
    torch.manual_seed(21)
    model = MultiTask()
    total = s.epochs * math.ceil(s.batches_per_epoch / s.accumulate)
    amp, ledger, progress = AmpOptimizer(model, s, total), Ledger(), Progress(every=2)
    for epoch in range(s.epochs):
        run_epoch(model, amp, s, ledger, progress, seed=epoch)
        val = validate(model, s)
        snapshot = {"model": {k: v.clone() for k, v in model.state_dict().items()}, **amp.state_dict()}
        # a preempted job starts again from here
        model = MultiTask()
        model.load_state_dict(snapshot["model"])
        amp = AmpOptimizer(model, s, total)
        amp.load_state_dict(snapshot)
        print(f"epoch {epoch} val {val:.4f} {ledger} lr {amp.sched.get_last_lr()[0]:.4f}")
    print(f"RESULT {ledger} ticks={amp.sched.last_epoch} val={val:.4f} scale={amp.scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
