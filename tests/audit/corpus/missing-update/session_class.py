import torch
import torch.nn as nn


class Session:
    # state of one run
    def __init__(self, d_in=7, d_out=2):
        self.net = nn.Sequential(nn.Linear(d_in, 14), nn.SiLU(), nn.Linear(14, d_out))
        self.optim = torch.optim.RMSprop(self.net.parameters(), lr=2e-3, alpha=0.95)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2048.0)
        self.n_seen = 0

    def forward_loss(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            return nn.functional.l1_loss(self.net(x), y)

    def apply(self, loss):
        self.optim.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optim)
        nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        self.scaler.step(self.optim)  # <-- FAULT

    def consume(self, stream):
        for x, y in stream:
            self.apply(self.forward_loss(x, y))
            self.n_seen += len(x)


def stream(n):
    for _ in range(n):
        x = torch.randn(12, 7)
        yield x, torch.stack([x.sum(1), x.prod(1)], 1)


torch.manual_seed(99)
s = Session()
s.consume(stream(10))
print("RESULT examples=%d" % s.n_seen)
