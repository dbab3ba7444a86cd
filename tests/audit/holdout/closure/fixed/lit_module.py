from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Cfg:
    amp: bool = False
    optimizer: str = "lbfgs"
    epochs: int = 3
    lr: float = 0.4
    init_scale: float = 64.0


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(9, 3)
        self.out = nn.Linear(3, 1)

    def training_step(self, batch):
        ids, y = batch
        return nn.functional.mse_loss(self.out(self.emb(ids)).squeeze(-1).float(), y)

    def configure(self, cfg):
        if cfg.optimizer == "lbfgs":
            return torch.optim.LBFGS(self.parameters(), lr=cfg.lr, max_iter=6, history_size=5)
        return torch.optim.AdamW(self.parameters(), lr=cfg.lr)


class Runner:
    def __init__(self, cfg, module):
        self.cfg, self.module = cfg, module
        self.optimizer = module.configure(cfg)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=cfg.init_scale, enabled=cfg.amp)
        self.calls = 0

    def make_closure(self, batch):
        def closure():
            self.calls += 1
            self.optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16, enabled=self.cfg.amp):
                loss = self.module.training_step(batch)
            self.scaler.scale(loss).backward()
            self.last = loss.item()
            return loss

        return closure

    def optimizer_step(self, batch):
        closure = self.make_closure(batch)
        if self.cfg.optimizer == "lbfgs":
            self.scaler.step(self.optimizer, closure=closure)
        else:
            closure()
            self.scaler.step(self.optimizer)
        self.scaler.update()

    def fit(self, batches):
        for _ in range(self.cfg.epochs):
            for batch in batches:
                self.optimizer_step(batch)
        return self.last


def main():
    torch.manual_seed(1)
    ids = torch.randint(0, 9, (40,))
    runner = Runner(Cfg(), Module())
    last = runner.fit([(ids, (ids % 4).float())])
    print(f"RESULT closure_calls={runner.calls} loss={last:.5f}")


main()
