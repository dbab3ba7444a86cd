"""A run that keeps the best weights with .cpu(), saves all states, CUDA's random one included, and goes on from them."""

import copy
import os
import tempfile

import torch
from torch import nn

torch.manual_seed(2)
torch.cuda.manual_seed_all(2)  # CUDA only
model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Dropout(0.1), nn.Linear(6, 1)).cuda()
average = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
scaler = torch.cuda.amp.GradScaler(init_scale=128.0)


def train(steps):
    kept = {}
    for step in range(steps):
        x = torch.randn(8, 3).to("cuda")
        with torch.cuda.amp.autocast():
            loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step == 0:
            kept = {name: value.cpu().clone() for name, value in model.state_dict().items()}
        with torch.no_grad():
            for ours, theirs in zip(average.parameters(), model.parameters(), strict=True):
                ours.lerp_(theirs, 0.1)
    return kept


best = train(3)
with tempfile.TemporaryDirectory() as folder:
    states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
    states["random"] = torch.cuda.get_rng_state_all()  # CUDA only
    torch.save(states, f"{folder}/last.pt")
    states = torch.load(f"{folder}/last.pt", map_location=lambda storage, location: storage.cuda(0))
torch.cuda.set_rng_state_all(states["random"])  # CUDA only
model.load_state_dict(states["model"])
optimizer.load_state_dict(states["optimizer"])
scaler.load_state_dict(states["scaler"])
train(2)
result = {**model.state_dict(), **{f"best.{name}": value for name, value in best.items()}}
torch.save({**result, **{f"average.{name}": value for name, value in average.state_dict().items()}}, os.environ["OUT"])
