import torch
from torch import nn

from adapter_tune_lib import Block, inject


def base_model(d=16, depth=2):
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(d) for _ in range(depth)))
    return model.half()


def pairs(n, d=16):
    g = torch.Generator().manual_seed(12)
    for _ in range(n):
        x = torch.randn(4, 5, d, generator=g)
        yield x, x.flip(1) * 0.5


def run(steps=8):
    model = base_model()
    trainable = inject(model, {"q", "v"})
    print("trainable", sum(p.numel() for p in trainable), "of", sum(p.numel() for p in model.parameters()))
    optimizer = torch.optim.AdamW(trainable, lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    losses, applied = [], 0
    for x, y in pairs(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(trainable, 1.0)
        at = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        applied += scaler.get_scale() >= at
        losses.append(loss.item())
    return applied, losses


if __name__ == "__main__":
    applied, losses = run()
    print(f"RESULT applied={applied} first={losses[0]:.4f} last={losses[-1]:.4f}")
