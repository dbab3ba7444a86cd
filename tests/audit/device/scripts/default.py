"""CUDA as the default device, the accelerator's own API, a model made in `with torch.device(...)`, checkpointed activations."""

import os

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

assert torch.accelerator.is_available()  # CUDA only
assert torch.accelerator.current_accelerator().type == "cuda"  # CUDA only
torch.set_default_device("cuda")
assert torch.get_default_device().type == "cuda"
torch.manual_seed(21)
with torch.device("cuda"):
    model = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 2)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.GradScaler("cuda", init_scale=64.0)
for _ in range(3):
    x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
    with torch.autocast("cuda"):
        assert torch.is_autocast_enabled("cuda")
        hidden = checkpoint(lambda t: torch.relu(model[0](t)), x, use_reentrant=False)
        loss = nn.functional.cross_entropy(model[1](hidden), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
torch.save(model.state_dict(), os.environ["OUT"])
