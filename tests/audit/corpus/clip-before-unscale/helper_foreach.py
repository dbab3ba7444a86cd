import torch
import torch.nn as nn

from helper_foreach_lib import DEFAULT_MAX_NORM, clip_global_norm, seed_everything

seed_everything(42)
encoder = nn.Sequential(nn.Linear(16, 12), nn.LayerNorm(12), nn.GELU())
decoder = nn.Sequential(nn.Linear(12, 16))
groups = [
    {"params": list(encoder.parameters()), "lr": 0.2},
    {"params": list(decoder.parameters()), "lr": 0.4, "momentum": 0.5},
]
opt = torch.optim.SGD(groups, lr=0.1)
scaler = torch.amp.GradScaler("cpu")


def batches(n, bs=24):
    basis = torch.randn(3, 16)
    for _ in range(n):
        yield torch.randn(bs, 3) @ basis


start = None
for x in batches(35):
    with torch.amp.autocast("cpu", torch.float16):
        rec = decoder(encoder(x))
        loss = nn.functional.smooth_l1_loss(rec, x)
    scaler.scale(loss).backward()
    clip_global_norm(opt, DEFAULT_MAX_NORM)
    scaler.step(opt)
    scaler.update()
    opt.zero_grad()
    start = start or loss.item()
print(f"RESULT start={start:.4f} end={loss.item():.4f}")
