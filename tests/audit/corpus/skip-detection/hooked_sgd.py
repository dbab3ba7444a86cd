import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)


class StepWatcher:
    def __init__(self, opt):
        self.flag = False
        opt.register_step_pre_hook(self._on)

    def _on(self, *_):
        self.flag = True

    def consume(self):
        f, self.flag = self.flag, False
        return f


emb = nn.Embedding(50, 16)
out = nn.Linear(16, 1)
opt = torch.optim.SGD([{"params": emb.parameters(), "lr": 1e-3}, {"params": out.parameters()}], lr=5e-4, fused=True)
watch = StepWatcher(opt)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.98)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**13, growth_interval=5)
ids = torch.randint(0, 50, (192,))
ratings = (ids.float() * 2)[:, None]
applied = 0

for epoch in range(3):
    for i, r in DataLoader(TensorDataset(ids, ratings), batch_size=16):
        w = out.bias.item()
        with torch.autocast("cpu", dtype=torch.float16):
            pred = out(emb(i))
            loss = nn.functional.mse_loss(pred.float(), r)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        applied += out.bias.item() != w
        if watch.consume():
            sched.step()  # <-- FAULT

print("RESULT", f"bias_moved={applied}", f"ticks={sched.last_epoch}", f"lr={sched.get_last_lr()[1]:.3e}")
