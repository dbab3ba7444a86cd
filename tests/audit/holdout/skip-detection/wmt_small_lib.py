import torch


class AmpStepper:
    def __init__(self, opt, sched, **kw):
        self.opt, self.sched = opt, sched
        self.scaler = torch.amp.GradScaler("cpu", **kw)
        self.completed = self.skipped = 0

    def __call__(self, loss):
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        before = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        if self.scaler.get_scale() == before:
            self.completed += 1
            self.sched.step()  # <-- FAULT
        else:
            self.skipped += 1

    def __str__(self):
        return f"scale {self.scaler.get_scale():.0f} done {self.completed} skipped {self.skipped}"


def copy_task(seed, vocab=14, t=6, bs=8):
    g = torch.Generator().manual_seed(seed)
    while True:
        src = torch.randint(0, vocab, (bs, t), generator=g)
        yield src, src.flip(1)
