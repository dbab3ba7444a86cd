import torch
import torch.nn as nn


class Balance(nn.Module):
    # divide each task loss by its running magnitude
    def __init__(self, tasks, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("level", torch.ones(tasks))

    def forward(self, losses):
        v = torch.stack(losses)
        with torch.no_grad():
            self.level.mul_(self.decay).add_(v.detach(), alpha=1 - self.decay)  # <-- FAULT
        return (v / self.level).sum()


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(8, 20)
        self.depth = nn.Linear(20, 1)
        self.seg = nn.Linear(20, 3)
        self.balance = Balance(2)

    def forward(self, x, d, s):
        h = torch.relu(self.trunk(x))
        return self.balance(
            [nn.functional.mse_loss(self.depth(h).float(), d), nn.functional.cross_entropy(self.seg(h).float(), s)]
        )


torch.manual_seed(50)
mt = MultiTask()
opt = torch.optim.SGD(mt.parameters(), lr=0.02)
amp = torch.amp.GradScaler("cpu", init_scale=1024.0)
total = []
for i in range(16):
    x = torch.randn(16, 8)
    d = x.sum(1, keepdim=True)
    if i == 4:
        d[3] = float("nan")  # hole in the depth map
    before = mt.trunk.weight.detach().clone()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = mt(x, d, x[:, :3].argmax(1))
    amp.scale(loss).backward()
    amp.step(opt)
    amp.update()
    opt.zero_grad()
    total.append(not torch.equal(mt.trunk.weight, before))
levels = [round(v, 3) for v in mt.balance.level.tolist()]
print(f"RESULT updates={sum(total)} of {len(total)} scale={amp.get_scale():g} {levels=}")
