import math

import torch


class Callback:
    def on_window(self, trainer, norm, loss):
        pass

    def on_epoch(self, trainer, epoch, train, dev):
        pass


class History(Callback):
    def __init__(self):
        self.norms, self.dev = [], []

    def on_window(self, trainer, norm, loss):
        if math.isfinite(norm):
            self.norms.append(norm)

    def on_epoch(self, trainer, epoch, train, dev):
        self.dev.append(dev)


class EarlyStop(Callback):
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, -1.0, 0

    def on_epoch(self, trainer, epoch, train, dev):
        if dev > self.best:
            self.best, self.bad = dev, 0
        else:
            self.bad += 1
            trainer.stop = self.bad >= self.patience


def make_corpus(n, seed):
    g = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(n):
        k = int(torch.randint(2, 13, (1,), generator=g))
        ids = torch.randint(1, 36, (k,), generator=g)
        labels = ids % 5
        labels[ids == 35] = -100
        out.append((ids, labels))
    return out


def bucket_batches(sentences, max_tokens):
    batches, cur, width = [], [], 0
    for s in sorted(sentences, key=lambda t: len(t[0])):
        width = max(width, len(s[0]))
        if cur and width * (len(cur) + 1) > max_tokens:
            batches.append(collate(cur))
            cur, width = [], len(s[0])
        cur.append(s)
    if cur:
        batches.append(collate(cur))
    return batches


def collate(rows):
    pad = torch.nn.utils.rnn.pad_sequence
    return pad([r[0] for r in rows], batch_first=True), pad([r[1] for r in rows], batch_first=True, padding_value=-100)
