import random

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from bert_norm_lib import TinyBert, collate

rnd = random.Random(13)
VOCAB = 18


def sentence():
    n = rnd.choice((5, 5, 5, 5, 5, 5, 4, 3))
    w = rnd.randrange(1, VOCAB)
    return [(w + i) % (VOCAB - 1) + 1 for i in range(n)]


class Meter:
    def __init__(self):
        self.total, self.n = 0.0, 0

    def add(self, v):
        self.total += v
        self.n += 1

    @property
    def mean(self):
        return self.total / max(self.n, 1)


def train(model, loader, optimizer, scaler):
    meter = Meter()
    for ids in loader:
        inp, lab = ids[:, :-1], ids[:, 1:]
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(inp)
        loss = F.cross_entropy(logits.float().flatten(0, 1), lab.flatten(), ignore_index=0)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        prev = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= prev:
            meter.add(loss.item())
    return meter


def main():
    torch.manual_seed(13)
    corpus = [sentence() for _ in range(64)]
    loader = DataLoader(corpus, 4, collate_fn=collate)
    model = TinyBert(VOCAB, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    good = 0
    for epoch in range(2):
        m = train(model, loader, optimizer, scaler)
        good += m.n
        print(f"epoch {epoch} nll {m.mean:.3f} updates {m.n}/{len(loader)}")
    print(f"RESULT updates={good}/{2 * len(loader)} nll={m.mean:.4f} scale={scaler.get_scale():g}")


main()
