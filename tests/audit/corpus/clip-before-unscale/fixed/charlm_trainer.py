import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


TEXT = "the quick brown fox jumps over the lazy dog and then the dog sleeps under the old brown tree. " * 6


class CharLM(nn.Module):
    def __init__(self, vocab, dim, hidden):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.ih = nn.Linear(dim, hidden)
        self.hh = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, ids):
        h = torch.zeros(ids.shape[0], self.hh.in_features)
        logits = []
        for t in range(ids.shape[1]):
            h = torch.tanh(self.ih(self.emb(ids[:, t])) + self.hh(h))
            logits.append(self.out(h))
        return torch.stack(logits, 1)


class Trainer:
    def __init__(self, args):
        torch.manual_seed(args.seed)
        chars = sorted(set(TEXT))
        stoi = {c: i for i, c in enumerate(chars)}
        self.data = torch.tensor([stoi[c] for c in TEXT])
        self.args = args
        self.model = CharLM(len(chars), 8, args.hidden)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9)
        self.grad_scaler = torch.amp.GradScaler("cpu", enabled=not args.no_amp)

    def get_batch(self):
        ix = torch.randint(len(self.data) - self.args.bptt - 1, (self.args.batch,))
        x = torch.stack([self.data[i : i + self.args.bptt] for i in ix])
        y = torch.stack([self.data[i + 1 : i + 1 + self.args.bptt] for i in ix])
        return x, y

    def train_step(self):
        x, y = self.get_batch()
        with torch.autocast("cpu", dtype=torch.float16, enabled=not self.args.no_amp):
            logits = self.model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        self.optimizer.zero_grad(set_to_none=True)
        self.grad_scaler.scale(loss).backward()
        if self.args.clip > 0:
            self.grad_scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
        self.grad_scaler.step(self.optimizer)
        self.grad_scaler.update()
        return loss.item()

    def fit(self):
        history = [self.train_step() for _ in range(self.args.steps)]
        return history


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=0.3)
    ap.add_argument("--clip", type=float, default=0.5)
    ap.add_argument("--hidden", type=int, default=24)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--bptt", type=int, default=6)
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--seed", type=int, default=1337)
    ap.add_argument("--no-amp", action="store_true")
    h = Trainer(ap.parse_args()).fit()
    print(f"RESULT first={sum(h[:3]) / 3:.4f} last={sum(h[-3:]) / 3:.4f}")
