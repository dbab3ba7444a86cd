"""Devices as numbers, DataParallel, tensor types of torch.cuda and a custom optimizer option: how it was written before 1.0."""

import os

import torch
from torch import nn

torch.manual_seed(4)
model = nn.DataParallel(nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.Linear(6, 2)), device_ids=[0]).to(0)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, capturable=True)
scaler = torch.cuda.amp.GradScaler(2.0**9)
classes = torch.arange(6, device=0) % 2
for _ in range(3):
    x = torch.randn(6, 4).cuda(0)
    scale = torch.ones(6, 1).type(torch.cuda.FloatTensor)
    shift = torch.zeros(1, device=x.get_device()) + torch.ones(1).type("torch.cuda.FloatTensor")
    with torch.cuda.amp.autocast():
        loss = nn.functional.cross_entropy(model(x * scale + shift), classes)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
torch.save(model.state_dict(), os.environ["OUT"])
