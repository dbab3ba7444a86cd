from dataclasses import dataclass

import torch
from char_lm_lib import GradClipper, StepLog
from torch import nn


@dataclass
class Config:
    vocab: int = 17
    hidden: int = 24
    seq: int = 12
    batch: int = 8
    steps: int = 25
    lr: float = 0.5
    clip_value: float = 0.05
    loss_scale: float = 1024.0


class CharModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.hidden)
        self.cell = nn.Linear(2 * cfg.hidden, cfg.hidden)
        self.out = nn.Linear(cfg.hidden, cfg.vocab)
        self.hidden = cfg.hidden

    def forward(self, ids):
        h = torch.zeros(ids.size(0), self.hidden)
        outs = []
        for t in range(ids.size(1)):
            h = torch.tanh(self.cell(torch.cat([self.emb(ids[:, t]), h], dim=-1))).float()
            outs.append(h)
        return self.out(torch.stack(outs, 1))


class Runner:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = CharModel(cfg)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=cfg.loss_scale)
        self.clipper = GradClipper(self.model, cfg.clip_value)
        self.log = StepLog()
        self.gen = torch.Generator().manual_seed(5)

    def batches(self):
        c = self.cfg
        for _ in range(c.steps):
            start = torch.randint(0, c.vocab, (c.batch, 1), generator=self.gen)
            seq = (start + 3 * torch.arange(c.seq + 1)) % c.vocab
            yield seq[:, :-1], seq[:, 1:]

    def compute(self, ids, target):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(ids)
            return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())

    def fit(self):
        for step, (ids, target) in enumerate(self.batches()):
            self.opt.zero_grad()
            loss = self.compute(ids, target)
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.opt)
            self.clipper()
            self.log.record(step, loss, self.model)
            self.scaler.step(self.opt)
            self.scaler.update()
        return self.log


def main():
    torch.manual_seed(11)
    log = Runner(Config()).fit()
    print(f"RESULT first={log.losses[0]:.4f} last={log.losses[-1]:.4f} largest_grad={max(log.peaks):.3e}")


if __name__ == "__main__":
    main()
