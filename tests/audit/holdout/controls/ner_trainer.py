import io
import json
import random
import sys
from collections import defaultdict

import torch
from ner_trainer_lib import Callback, EarlyStop, History, bucket_batches, make_corpus
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

CONFIG = json.loads("""
{"model": {"vocab": 36, "dim": 10, "hidden": 10, "labels": 5, "dropout": 0.1},
 "train": {"epochs": 3, "max_tokens": 48, "accumulate": 3, "lr": 0.03, "warmup": 3, "clip": 1.0, "seed": 4}}
""")


class Encoder(nn.Module):
    def __init__(self, vocab, dim, hidden, labels, dropout):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.left = nn.Linear(2 * dim, hidden)
        self.right = nn.Linear(2 * dim, hidden)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(2 * hidden, labels)

    def forward(self, ids):
        e = self.embed(ids)
        prev = nn.functional.pad(e, (0, 0, 1, 0))[:, :-1]
        nxt = nn.functional.pad(e, (0, 0, 0, 1))[:, 1:]
        h = torch.cat([self.left(torch.cat([prev, e], -1)), self.right(torch.cat([e, nxt], -1))], -1)
        return self.classifier(self.dropout(torch.relu(h)))


class NerTrainer:
    def __init__(self, config, callbacks=()):
        self.cfg = config["train"]
        torch.manual_seed(self.cfg["seed"])
        random.seed(self.cfg["seed"])
        self.model = Encoder(**config["model"])
        embed = list(self.model.embed.parameters())
        rest = [p for n, p in self.model.named_parameters() if not n.startswith("embed")]
        self.optimizer = torch.optim.AdamW(
            [{"params": embed, "lr": self.cfg["lr"] * 2, "weight_decay": 0.0}, {"params": rest}],
            lr=self.cfg["lr"],
            weight_decay=0.01,
        )
        self.warmup = LambdaLR(self.optimizer, lambda n: min(1.0, (n + 1) / (self.cfg["warmup"] + 1)))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**21)
        self.callbacks = list(callbacks)
        self.counts = defaultdict(int)
        self.stop = False

    def emit(self, event, **kw):
        for cb in self.callbacks:
            getattr(cb, event)(self, **kw)

    @staticmethod
    def summed_loss(logits, labels):
        return nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")

    def windows(self, batches):
        size = self.cfg["accumulate"]
        for start in range(0, len(batches), size):
            yield batches[start : start + size]

    def train_window(self, window):
        scored = sum(int((labels != -100).sum()) for _, labels in window)
        if scored == 0:
            self.counts["empty"] += 1
            return 0.0, 0
        total = 0.0
        self.optimizer.zero_grad(set_to_none=True)
        for ids, labels in window:
            with torch.autocast("cpu", dtype=torch.float16):
                logits = self.model(ids)
            loss = self.summed_loss(logits, labels)
            self.scaler.scale(loss / scored).backward()
            total += loss.item()
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg["clip"])
        before = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.counts["attempts"] += 1
        self.counts["tokens_seen"] += scored
        if self.scaler.get_scale() < before:
            self.counts["skipped"] += 1
        else:
            self.counts["updates"] += 1
            self.counts["tokens_applied"] += scored
            self.warmup.step()
        self.emit("on_window", norm=norm.item(), loss=total / scored)
        return total, scored

    def fit(self, train, dev):
        for epoch in range(self.cfg["epochs"]):
            self.model.train()
            batches = bucket_batches(train, self.cfg["max_tokens"])
            random.shuffle(batches)
            nll = n = 0
            for window in self.windows(batches):
                a, b = self.train_window(window)
                nll, n = nll + a, n + b
            score = self.evaluate(dev)
            self.emit("on_epoch", epoch=epoch, train=nll / n, dev=score)
            if self.stop:
                break
        return score

    @torch.inference_mode()
    def evaluate(self, sentences):
        self.model.eval()
        hit = n = 0
        for ids, labels in bucket_batches(sentences, 2 * self.cfg["max_tokens"]):
            keep = labels != -100
            with torch.autocast("cpu", dtype=torch.float16):
                pred = self.model(ids).argmax(-1)
            hit += int((pred == labels)[keep].sum())
            n += int(keep.sum())
        return hit / n

    def export(self):
        buf = io.BytesIO()
        parts = ("model", "optimizer", "warmup", "scaler")
        torch.save({k: getattr(self, k).state_dict() for k in parts} | {"counts": dict(self.counts)}, buf)
        return buf.getvalue()


class Printer(Callback):
    def on_epoch(self, trainer, epoch, train, dev):
        print(f"epoch {epoch} nll/token {train:.4f} dev acc {dev:.4f} {dict(trainer.counts)}", file=sys.stderr)


def main():
    history = History()
    trainer = NerTrainer(CONFIG, [history, EarlyStop(patience=2), Printer()])
    corpus = make_corpus(80, seed=0)
    score = trainer.fit(corpus[:64], corpus[64:])
    blob = trainer.export()
    c = trainer.counts
    print(
        f"RESULT attempts={c['attempts']} updates={c['updates']} ticks={trainer.warmup.last_epoch} "
        f"applied={c['tokens_applied']} seen={c['tokens_seen']} dev={score:.4f} "
        f"norm={history.norms[-1]:.4f} saved={len(blob) > 0}"
    )


if __name__ == "__main__":
    main()
