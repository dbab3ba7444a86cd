import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad_norm_
from tts_duration_lib import DurationPredictor, batches, masked_l1

HP = {
    "lr": 0.02,
    "epochs": 2,
    "grad_clip": 1.0,
    "init_scale": 2.0**21,
    "hidden": 24,
    "symbols": 30,
}


def train(model, optim, scaler, hp):
    updates = 0
    for epoch in range(1, hp["epochs"] + 1):
        model.train()
        total, n = 0.0, 0
        for text, lengths, dur in batches(hp["symbols"], seed=epoch):
            optim.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                pred = model(text)
            loss_dur = masked_l1(pred.float(), dur, lengths)
            loss_sum = F.smooth_l1_loss(pred.float().sum(1), dur.sum(1)) * 0.01
            loss = loss_dur + loss_sum
            scaler.scale(loss).backward()
            scaler.unscale_(optim)
            gnorm = clip_grad_norm_(model.parameters(), hp["grad_clip"])
            optim.step()  # <-- FAULT
            scaler.update()
            updates += 1
            total += loss.item()
            n += 1
            print(f"epoch {epoch} {n}: loss {loss.item():.3f} gnorm {gnorm.item():.3f}", file=sys.stderr)
    return total / n, updates


def finite(model):
    return all(torch.isfinite(p).all().item() for p in model.parameters())


def main():
    torch.manual_seed(2)
    model = DurationPredictor(HP["symbols"], HP["hidden"])
    nn.init.constant_(model.out.bias, 1.0)
    optim = torch.optim.RAdam(model.parameters(), lr=HP["lr"])
    scaler = torch.amp.GradScaler("cpu", init_scale=HP["init_scale"])
    avg, _ = train(model, optim, scaler, HP)
    print(f"RESULT mean_loss={avg:.4f} weights_finite={finite(model)} scale={scaler.get_scale():.0f}")


if __name__ == "__main__":
    main()
