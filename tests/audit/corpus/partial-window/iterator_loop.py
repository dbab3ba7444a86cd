import torch
from torch import nn


def stream(n, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        x = torch.randn(6, 7, 5, generator=g)
        yield x, x.cumsum(1)[..., :1]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(5, 12, batch_first=True)
        self.fc = nn.Linear(12, 1)

    def forward(self, x):
        return self.fc(self.rnn(x)[0])


torch.manual_seed(21)
net = Net()
params = list(net.parameters())
opt = torch.optim.RMSprop(params, lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
WINDOW, NBATCH = 5, 12
used = steps = 0
for epoch in range(3):
    for p in params:
        p.grad = None  # <-- FAULT
    it = iter(stream(NBATCH, epoch))
    k = 0
    while True:
        try:
            x, y = next(it)
        except StopIteration:
            break
        size = WINDOW
        with torch.autocast("cpu", dtype=torch.float16):
            pred = net(x)
        scaler.scale(nn.functional.huber_loss(pred.float(), y) / size).backward()
        k += 1
        if k < WINDOW:
            continue
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        used, steps, k = used + k, steps + 1, 0
print(f"RESULT updates={steps} batches_used={used}/{3 * NBATCH}")
