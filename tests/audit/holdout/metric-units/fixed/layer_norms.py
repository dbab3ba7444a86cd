import json
import os
import tempfile

import torch
from layer_norms_lib import JsonLogger, grad_stats
from torch import nn


class Mixer(nn.Module):
    def __init__(self, tokens=6, d=10, classes=3):
        super().__init__()
        self.tok = nn.Sequential(nn.Linear(tokens, 12), nn.GELU(), nn.Linear(12, tokens))
        self.chn = nn.Sequential(nn.Linear(d, 20), nn.GELU(), nn.Linear(20, d))
        self.head = nn.Linear(d, classes)

    def forward(self, x):
        x = x + self.tok(x.transpose(1, 2)).transpose(1, 2)
        return self.head((x + self.chn(x)).mean(1))


class Trainer:
    def __init__(self, cfg, logger):
        self.cfg, self.logger = cfg, logger
        self.model = Mixer()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg["lr"], betas=(0.9, 0.95))
        self.scaler = torch.amp.GradScaler("cpu", init_scale=cfg["scale"], growth_interval=6)

    def data(self):
        g = torch.Generator().manual_seed(self.cfg["seed"])
        for _ in range(self.cfg["steps"]):
            y = torch.randint(0, 3, (16,), generator=g)
            x = torch.randn(16, 6, 10, generator=g)
            x[torch.arange(16), :, y] += 1.0
            yield x, y

    def fit(self):
        for step, (x, y) in enumerate(self.data()):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = nn.functional.cross_entropy(self.model(x), y)
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.opt)
            if step % self.cfg["log_every"] == 0:
                self.logger.write(step=step, loss=loss.item(), **grad_stats(self.model))
            nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg["clip"])
            self.scaler.step(self.opt)
            self.scaler.update()
            self.opt.zero_grad(set_to_none=True)


def main():
    cfg = {"lr": 3e-3, "scale": 1024.0, "steps": 16, "log_every": 5, "clip": 1.0, "seed": 0}
    torch.manual_seed(cfg["seed"])
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "metrics.jsonl")
        logger = JsonLogger(path)
        Trainer(cfg, logger).fit()
        logger.close()
        with open(path) as f:
            rows = [json.loads(line) for line in f]
    print("RESULT grad_norm=" + ",".join(f"{r['grad_norm']:.4g}" for r in rows) + f" loss={rows[-1]['loss']:.4f}")


if __name__ == "__main__":
    main()
