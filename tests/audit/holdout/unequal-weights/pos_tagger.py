from dataclasses import dataclass

import torch
from pos_tagger_lib import PAD, LengthBuckets, masked_nll
from torch import nn


@dataclass
class TaggerConfig:
    words: int = 40
    tags: int = 6
    dim: int = 10
    hidden: int = 12
    grad_accum: int = 3
    updates: int = 8
    lr: float = 0.6
    scale: float = 512.0


class Tagger(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c.words, c.dim, padding_idx=PAD)
        self.fwd = nn.Linear(c.dim + c.hidden, c.hidden)
        self.tag = nn.Linear(c.hidden, c.tags)
        self.hidden = c.hidden

    def forward(self, words):
        e = self.emb(words)
        h = e.new_zeros(words.size(0), self.hidden)
        out = []
        for t in range(words.size(1)):
            h = torch.tanh(self.fwd(torch.cat([e[:, t], h], -1))).float()
            out.append(self.tag(h))
        return torch.stack(out, 1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = Tagger(cfg)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=cfg.scale)
        self.data = LengthBuckets(cfg.words, cfg.tags, seed=0)
        self.tokens = 0

    def train_window(self):
        window = [self.data.next_batch() for _ in range(self.cfg.grad_accum)]
        n_tok = sum(int((w != PAD).sum()) for w, _ in window)
        total = 0.0
        for words, tags in window:
            with torch.autocast("cpu", dtype=torch.float16):
                logits = self.model(words)
            nll, count = masked_nll(logits.float(), tags, words)
            loss = nll / count / self.cfg.grad_accum  # <-- FAULT
            self.scaler.scale(loss).backward()
            total += nll.item()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.opt.zero_grad()
        self.tokens += n_tok
        return total / n_tok

    def evaluate(self):
        self.model.eval()
        data = LengthBuckets(self.cfg.words, self.cfg.tags, seed=77)
        nll = n = 0
        with torch.no_grad():
            for _ in range(6):
                w, t = data.next_batch()
                a, b = masked_nll(self.model(w), t, w)
                nll, n = nll + a.item(), n + b.item()
        self.model.train()
        return nll / n


torch.manual_seed(0)
trainer = Trainer(TaggerConfig())
for u in range(trainer.cfg.updates):
    loss = trainer.train_window()
    print(f"update {u} nll/token {loss:.4f} tokens {trainer.tokens}")
bias = ",".join(f"{b:.4f}" for b in trainer.model.tag.bias.tolist()[:3])
print(f"RESULT tokens={trainer.tokens} train={loss:.4f} dev={trainer.evaluate():.4f} bias={bias}")
