import os
import tempfile
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Settings:
    n_mels: int = 8
    hidden: int = 12
    classes: int = 4
    lr: float = 0.05
    steps: int = 12
    batch: int = 8
    clip: float = 1.0


class KeywordNet(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.conv = nn.Conv1d(s.n_mels, s.hidden, 3, padding=1)
        self.mix = nn.Linear(s.hidden, s.hidden)
        self.out = nn.Linear(s.hidden, s.classes)

    def forward(self, x):
        h = torch.relu(self.conv(x)).mean(2)
        return self.out(torch.tanh(self.mix(h)))


def export(model, path):
    slim = {k: v.half() for k, v in model.state_dict().items()}
    torch.save({"weights": slim, "format": 2}, path)


def load_pretrained(model, path):
    blob = torch.load(path, mmap=True)
    if blob["format"] < 2:
        raise ValueError("old checkpoint")
    missing = model.load_state_dict(blob["weights"], strict=False, assign=True)  # <-- FAULT
    if missing.missing_keys:
        print("missing", missing.missing_keys)
    return model


def clips(s, n):
    g = torch.Generator().manual_seed(3)
    proto = torch.randn(s.classes, s.n_mels, 1, generator=g)
    for _ in range(n):
        y = torch.randint(0, s.classes, (s.batch,), generator=g)
        yield proto[y] + torch.randn(s.batch, s.n_mels, 10, generator=g), y


class Loop:
    def __init__(self, s, model):
        self.s, self.model = s, model
        self.opt = torch.optim.SGD(model.parameters(), lr=s.lr, momentum=0.9)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=512.0)
        self.updates = 0

    def step(self, x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            logits = self.model(x)
        loss = nn.functional.cross_entropy(logits.float(), y, label_smoothing=0.05)
        self.opt.zero_grad()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.s.clip)
        scale = self.scaler.get_scale()
        self.scaler.step(self.opt)
        self.scaler.update()
        self.updates += self.scaler.get_scale() >= scale
        return loss.item()


def main():
    s = Settings()
    torch.manual_seed(8)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "kws_slim.pt")
        export(KeywordNet(s), path)
        model = load_pretrained(KeywordNet(s), path)
        loop = Loop(s, model)
        trace = [loop.step(x, y) for x, y in clips(s, s.steps)]
    print(f"RESULT updates={loop.updates} first={trace[0]:.4f} last={trace[-1]:.4f}")


if __name__ == "__main__":
    main()
