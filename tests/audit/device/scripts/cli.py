"""A device from the command line that goes everywhere: module constructors, factories, a generator, a Module.to with a format."""

import argparse
import os

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda", type=str)
parser.add_argument("--steps", default=3, type=int)
args = parser.parse_args([])

torch.manual_seed(args.steps)
factory = {"device": args.device, "dtype": torch.float32}
model = nn.Sequential(nn.Linear(6, 8, **factory), nn.LayerNorm(8, **factory), nn.Dropout(0.2), nn.Linear(8, 1, **factory))
model.register_buffer("shift", torch.full((1,), 0.5, device=args.device))
teacher = nn.Linear(6, 1).to(args.device, torch.float64).float()
generator = torch.Generator(device=args.device).manual_seed(11)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler(args.device, init_scale=256.0, growth_interval=2)
for _ in range(args.steps):
    x = torch.randn(5, 6, generator=generator, device=args.device)
    noise = torch.zeros_like(x, device=args.device).normal_(generator=generator) * torch.tensor(0.1, device=args.device)
    weight = torch.as_tensor([1.0] * 5, device=args.device) + x.new_zeros(5, device=args.device)
    with torch.autocast(device_type=args.device, dtype=torch.float16):
        target = teacher(x).detach()
        loss = (weight * (model(x + noise) - target + model.shift).float().squeeze(1) ** 2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
torch.save(model.state_dict(), os.environ["OUT"])
