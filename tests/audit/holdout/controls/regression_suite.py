import abc
import csv
import io
import pathlib
import sys
import tempfile
import time

import torch
from torch import nn


class Callback(abc.ABC):
    def on_start(self, loop): ...

    def on_update(self, loop, loss): ...

    def on_skip(self, loop): ...

    def on_epoch(self, loop): ...


class Csv(Callback):
    def __init__(self):
        self.buf = io.StringIO()
        self.out = csv.writer(self.buf)

    def on_start(self, loop):
        self.out.writerow(["update", "loss", "lr", "scale"])
        self.clock = time.perf_counter()

    def on_update(self, loop, loss):
        self.out.writerow([loop.updates, f"{loss:.5f}", loop.opt.param_groups[0]["lr"], loop.scaler.get_scale()])

    def on_epoch(self, loop):
        rate = loop.rows / (time.perf_counter() - self.clock)
        print(f"epoch {loop.epoch} {loop.updates} updates {loop.skips} skips", file=sys.stderr if rate < 0 else sys.stdout)


class Warmup(Callback):
    def __init__(self, n, peak):
        self.n, self.peak = n, peak

    def on_start(self, loop):
        self._set(loop)

    def on_update(self, loop, loss):
        self._set(loop)

    def _set(self, loop):
        for g in loop.opt.param_groups:
            g["lr"] = self.peak * g.get("mult", 1.0) * min(1.0, (loop.updates + 1) / self.n)


class Polyak(Callback):
    def __init__(self, horizon):
        self.h, self.n = horizon, 0

    def on_start(self, loop):
        self.avg = torch.optim.swa_utils.AveragedModel(loop.net, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(self.h))

    def on_update(self, loop, loss):
        self.avg.update_parameters(loop.net)
        self.n += 1


class Keep(Callback):
    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "best.pt"
        self.best = float("inf")

    def on_epoch(self, loop):
        score = loop.evaluate()
        if score < self.best:
            self.best = score
            torch.save(
                {k: getattr(loop, k).state_dict() for k in ("net", "opt", "scaler")} | {"updates": loop.updates}, self.path
            )


class Sparse(nn.Module):
    def __init__(self, vocab=14, d=8):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, d, mode="sum", padding_idx=0)
        self.rnn = nn.LSTM(4, d, batch_first=True)
        self.mix = nn.Bilinear(d, d, 6)
        self.out = nn.Linear(6, 2)

    def forward(self, ids, seq):
        bag = self.bag(ids)
        with torch.autocast("cpu", enabled=False):
            _, (h, _) = self.rnn(seq.float())
            z = self.mix(bag.float(), h[0])
        return self.out(torch.tanh(z))


def gaussian_nll(out, y):
    mean, raw = out.float().unbind(1)
    return nn.functional.gaussian_nll_loss(mean, y, nn.functional.softplus(raw) + 1e-3)


class Loop:
    def __init__(self, net, opt, loss, callbacks, **scaler):
        self.net, self.opt, self.loss, self.callbacks = net, opt, loss, callbacks
        self.scaler = torch.amp.GradScaler("cpu", **scaler)
        self.updates = self.skips = self.epoch = self.rows = 0

    def fire(self, event, *args):
        for c in self.callbacks:
            getattr(c, f"on_{event}")(self, *args)

    def data(self, n, seed, bs=10):
        g = torch.Generator().manual_seed(seed)
        for _ in range(n):
            ids = torch.randint(0, 14, (bs, 5), generator=g)
            seq = torch.randn(bs, 4, 4, generator=g)
            yield ids, seq, seq[:, :, 0].mean(1) + (ids == 3).sum(1) * 0.5

    def evaluate(self):
        self.net.eval()
        with torch.no_grad():
            total = [nn.functional.l1_loss(self.net(i, s)[:, 0], y).item() for i, s, y in self.data(3, 999)]
        self.net.train()
        return sum(total) / len(total)

    def fit(self, epochs, per_epoch=10):
        self.fire("start")
        while self.epoch < epochs:
            for ids, seq, y in self.data(per_epoch, self.epoch):
                for p in self.net.parameters():
                    p.grad = None
                with torch.autocast("cpu", dtype=torch.float16):
                    loss = self.loss(self.net(ids, seq), y)
                self.scaler.scale(loss).backward()
                self.scaler.unscale_(self.opt)
                torch.nn.utils.clip_grad_norm_((p for g in self.opt.param_groups for p in g["params"]), 1.0)
                had = self.scaler.get_scale()
                self.scaler.step(self.opt)
                self.scaler.update()
                if self.scaler.get_scale() < had:
                    self.skips += 1
                    self.fire("skip")
                else:
                    self.updates += 1
                    self.rows += len(y)
                    self.fire("update", loss.item())
            self.epoch += 1
            self.fire("epoch")


def main():
    torch.manual_seed(12)
    net = Sparse()
    groups = [
        {"params": net.bag.parameters(), "mult": 3.0},
        {"params": [p for n, p in net.named_parameters() if not n.startswith("bag")]},
    ]
    opt = torch.optim.AdamW(groups, lr=5e-3, amsgrad=True)
    with tempfile.TemporaryDirectory() as folder:
        table, keep, avg = Csv(), Keep(folder), Polyak(0.9)
        loop = Loop(net, opt, gaussian_nll, [table, Warmup(5, 1e-2), avg, keep], init_scale=2.0**18, growth_interval=12)
        loop.fit(3)
        best = torch.load(keep.path)["updates"]
    lines = table.buf.getvalue().count("\n")
    print(f"RESULT updates={loop.updates} skips={loop.skips} averaged={avg.n} logged={lines - 1} best={keep.best:.4f} at={best}")


if __name__ == "__main__":
    main()
