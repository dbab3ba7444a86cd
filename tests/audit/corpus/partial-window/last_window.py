import torch
from torch import nn


class Accumulator:
    def __init__(self, optimizer, scaler, every):
        self.optimizer, self.scaler, self.every = optimizer, scaler, every
        self.count = 0
        self.norms = []

    def backward(self, loss, is_last, window=None):
        self.scaler.scale(loss / self.every).backward()  # <-- FAULT
        self.count += 1
        if self.count == self.every or is_last:
            self.flush()

    def flush(self):
        self.scaler.unscale_(self.optimizer)
        grads = [p.grad for g in self.optimizer.param_groups for p in g["params"]]
        self.norms.append(nn.utils.get_total_norm(grads).item())
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.count = 0


torch.manual_seed(0)
K = 4
xs = [torch.ones(4, 3) for _ in range(9)]
net = nn.Linear(3, 1, bias=False)
acc = Accumulator(torch.optim.SGD(net.parameters(), lr=0.01), torch.amp.GradScaler("cpu", init_scale=16.0), every=K)
last = len(xs) - 1
for epoch in range(2):
    for i, x in enumerate(xs):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = net(x).mean()
        acc.backward(loss, i == last)
print("RESULT norms=" + ",".join(f"{n:.4f}" for n in acc.norms))
