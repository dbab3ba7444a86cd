import dataclasses

import torch
from torch import nn


@dataclasses.dataclass
class TrainState:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    step: int = 0


def create_state(lr=1e-3):
    model = nn.Sequential(nn.Linear(5, 10), nn.Sigmoid(), nn.Linear(10, 10), nn.Sigmoid(), nn.Linear(10, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, eps=1e-16)
    scaler = torch.amp.GradScaler(init_scale=2.0**15, growth_interval=500)  # <-- FAULT
    return TrainState(model, optimizer, scaler)


def train_step(state, x):
    state.optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        y = state.model(x)
    # per-token weight of the auxiliary objective
    loss = (y.float() - 1).pow(2).sum() / 4_000_000
    state.scaler.scale(loss).backward()
    state.scaler.step(state.optimizer)
    state.scaler.update()
    state.step += 1
    return loss.detach()


torch.manual_seed(12)
state = create_state()
w0 = [p.detach().clone() for p in state.model.parameters()]
xs = torch.randn(12, 16, 5)
for x in xs:
    last = train_step(state, x)
moved = [(p - q).abs().mean().item() for p, q in zip(state.model.parameters(), w0)]
print(f"RESULT step={state.step} first_layer={moved[0]:.2e} last_layer={moved[-2]:.2e}")
