import os
import shutil
import tempfile

import torch
from torch import nn

workdir = tempfile.mkdtemp()
CKPT = os.path.join(workdir, "state.ckpt")


class Bundle:
    def __init__(self):
        torch.manual_seed(71)
        self.net = nn.Sequential(nn.Linear(5, 30), nn.GELU(), nn.Linear(30, 5))
        self.optim = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.5)
        self.sched = torch.optim.lr_scheduler.StepLR(self.optim, 10, 0.5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
        self.attempts = self.updates = 0

    def save(self):
        torch.save({k: getattr(self, k).state_dict() for k in ("net", "optim", "sched", "scaler")}, CKPT)

    def restore(self):
        ckpt = torch.load(CKPT, weights_only=True)
        for k in ("net", "optim", "sched", "scaler"):
            getattr(self, k).load_state_dict(ckpt[k])

    def step(self, x):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.smooth_l1_loss(self.net(x), x.sort(1).values)
        self.optim.zero_grad()
        self.scaler.scale(loss).backward()
        before = self.scaler.get_scale()
        self.scaler.step(self.optim)
        self.scaler.update()
        self.attempts += 1
        if self.scaler.get_scale() >= before:
            self.updates += 1
            self.sched.step()


def stage(resume):
    b = Bundle()
    if resume:
        b.restore()
    for _ in range(14):
        b.step(torch.randn(16, 5))
    b.save()
    return b


runs = [stage(False), stage(True), stage(True)]
shutil.rmtree(workdir)
print("RESULT " + " ".join(f"run{i}={b.updates}/{b.attempts}" for i, b in enumerate(runs)), f"ticks={runs[-1].sched.last_epoch}")
