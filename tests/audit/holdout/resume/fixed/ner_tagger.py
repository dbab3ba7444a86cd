import os
import tempfile
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR


@dataclass
class Args:
    vocab: int = 40
    tags: int = 5
    emb: int = 12
    hid: int = 10
    batch: int = 8
    seq: int = 6
    iters: int = 10
    lr: float = 0.02
    init_scale: float = 2.0**21


class Tagger(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.emb = nn.Embedding(a.vocab, a.emb)
        self.rnn = nn.GRU(a.emb, a.hid, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * a.hid, a.tags)

    def forward(self, ids):
        with torch.autocast("cpu", enabled=False):
            h, _ = self.rnn(self.emb(ids))
        return self.out(h)


class Trainer:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(0)
        self.model = Tagger(args)
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=args.lr)
        self.scheduler = StepLR(self.optimizer, step_size=1, gamma=0.7)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=args.init_scale)
        self.criterion = nn.CrossEntropyLoss()
        self.epoch = 0
        self.updates = 0

    def save(self, path):
        state = dict(epoch=self.epoch, updates=self.updates)
        for name in ("model", "optimizer", "scheduler", "scaler"):
            state[name] = getattr(self, name).state_dict()
        torch.save(state, path)

    def load(self, path):
        state = torch.load(path)
        self.epoch = state.pop("epoch")
        self.updates = state.pop("updates")
        for name, value in state.items():
            getattr(self, name).load_state_dict(value)
        print(f"resumed from epoch {self.epoch}")

    def batches(self):
        g = torch.Generator().manual_seed(1000 + self.epoch)
        for _ in range(self.args.iters):
            ids = torch.randint(0, self.args.vocab, (self.args.batch, self.args.seq), generator=g)
            yield ids, (ids // 3 + ids.roll(1, 1) % 2) % self.args.tags

    def run_epoch(self):
        self.model.train()
        applied = 0
        for ids, tags in self.batches():
            self.optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                logits = self.model(ids)
                loss = self.criterion(logits.flatten(0, 1).float(), tags.flatten())
            self.scaler.scale(loss).backward()
            scale = self.scaler.get_scale()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            applied += self.scaler.get_scale() >= scale
        self.updates += applied
        self.scheduler.step()
        self.epoch += 1
        print(f"epoch {self.epoch} loss {loss.item():.4f} applied {applied}/{self.args.iters} scale {scale:g}")
        return applied


def main():
    args = Args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        first = Trainer(args)
        first.run_epoch()
        before = first.run_epoch()
        first.save(path)
        settled = first.scaler.get_scale()
        del first
        second = Trainer(args)
        second.load(path)
        after = second.run_epoch()
    print(f"RESULT settled={settled:.0f} applied_before={before} applied_after={after} updates={second.updates}")


main()
