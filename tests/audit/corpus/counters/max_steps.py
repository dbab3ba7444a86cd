import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

p = argparse.ArgumentParser()
p.add_argument("--max_steps", type=int, default=10, help="number of parameter updates to perform")
p.add_argument("--gradient_accumulation_steps", type=int, default=4)
p.add_argument("--learning_rate", type=float, default=0.05)
args = p.parse_args()

torch.manual_seed(5)
unet = nn.Sequential(nn.Linear(6, 18), nn.SiLU(), nn.Linear(18, 6))
optimizer = torch.optim.AdamW(unet.parameters(), lr=args.learning_rate)
lr_scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=args.max_steps)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
data = DataLoader(torch.randn(160, 6), batch_size=2, shuffle=True)

global_step = 0
done = False
while not done:
    for micro, clean in enumerate(data, 1):
        noise = torch.randn_like(clean)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(unet(clean + noise).float(), noise)
        scaler.scale(loss / args.gradient_accumulation_steps).backward()
        if micro % args.gradient_accumulation_steps == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            lr_scheduler.step()
        global_step += 1  # <-- FAULT
        if global_step >= args.max_steps and micro % args.gradient_accumulation_steps == 0:
            done = True
            break

adam = int(optimizer.state[unet[0].weight]["step"])
print(f"RESULT global_step={global_step} adam_steps={adam} lr={lr_scheduler.get_last_lr()[0]:.4f}")
