import argparse
import math

import torch
from torch import nn


def lr_lambda(warmup, total):
    def fn(step):
        if step < warmup:
            return (step + 1) / warmup
        progress = min(1.0, (step - warmup) / max(1, total - warmup))
        return 0.5 * (1.0 + math.cos(math.pi * progress))

    return fn


ap = argparse.ArgumentParser()
ap.add_argument("--train-steps", type=int, default=12)
ap.add_argument("--warmup-steps", type=int, default=3)
ap.add_argument("--grad-accum", type=int, default=4)
ap.add_argument("--lr", type=float, default=3e-2)
opts = ap.parse_args()

torch.manual_seed(0)
encoder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
head = nn.Linear(16, 1)
decay = [p for m in (encoder, head) for p in m.parameters() if p.ndim > 1]
no_decay = [p for m in (encoder, head) for p in m.parameters() if p.ndim <= 1]
optim = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": no_decay, "weight_decay": 0.0}], lr=opts.lr)
sched = torch.optim.lr_scheduler.LambdaLR(optim, lr_lambda(opts.warmup_steps, opts.train_steps))

used, micro = [], 0
while len(used) < opts.train_steps:
    seq = torch.randn(4, 6, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = head(encoder(seq)).float().mean(1)
    loss = nn.functional.l1_loss(out, seq.amax((1, 2), keepdim=False)[:, None]) / opts.grad_accum
    loss.backward()
    micro += 1
    if micro % opts.grad_accum == 0:
        used.append(optim.param_groups[0]["lr"])
        optim.step()
        optim.zero_grad()
        sched.step()

print("RESULT peak_lr_used=%.5f last_lr_used=%.5f ticks=%d updates=%d" % (max(used), used[-1], sched.last_epoch, len(used)))
