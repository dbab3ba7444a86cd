import torch
from torch import nn


class LitStyleModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.GRU(6, 16, batch_first=True)
        self.head = nn.Linear(16, 3)

    def training_step(self, batch):
        x, y = batch
        h, _ = self.body(x)
        return nn.functional.cross_entropy(self.head(h[:, -1]), y)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=1e-2)
        return opt, torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=20)


class Runner:
    def __init__(self, module, seed=0):
        torch.manual_seed(seed)
        self.module = module
        self.opt, self.sched = module.configure_optimizers()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=3)

    def optimizer_step(self):
        scale = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        return self.scaler.get_scale() >= scale

    def run(self, n):
        skipped = 0
        for _ in range(n):
            x = torch.randn(12, 5, 6)
            self.opt.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = self.module.training_step((x, x[:, 0, :3].argmax(1)))
            self.scaler.scale(loss).backward()
            if self.optimizer_step():
                self.sched.step()
            else:
                skipped += 1
        return skipped


torch.manual_seed(0)
runner = Runner(LitStyleModule())
skipped = runner.run(20)
t = int(runner.opt.state[runner.module.head.weight]["step"])
print(f"RESULT adam_step={t} reported_skipped={skipped} scheduler_ticks={runner.sched.last_epoch}")
