"""Trainings to save and restore: small, and with everything that has a state."""

import random

import numpy as np
import torch
from torch import nn

import truestep

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "fused sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "fused adamw": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
}
SCHEDULERS = {
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=30),
    "warmup": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [torch.optim.lr_scheduler.LinearLR(o, total_iters=5), torch.optim.lr_scheduler.MultiStepLR(o, [8, 14])],
        milestones=[5],
    ),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=60),
}


class Net(nn.Module):
    """Dropout draws random numbers, BatchNorm keeps statistics."""

    def __init__(self, width=6):
        super().__init__()
        self.inner, self.norm, self.drop = nn.Linear(5, width), nn.BatchNorm1d(width), nn.Dropout(0.3)
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.norm(self.inner(x)))))


def loss(model, batch):
    """A large factor makes float16 overflow at the first scales: attempts are skipped."""
    return (model(batch.to(model.last.weight.dtype)) * 3.0).square().mean()


class Drawn:
    """A part with a state: a generator of its own, and what was drawn from it."""

    def __init__(self):
        self.generator, self.drawn = torch.Generator().manual_seed(3), []

    def batch(self):
        self.drawn.append(len(self.drawn))
        noise = np.random.rand() + random.random()  # as augmenting code does
        return torch.randn(8, 5, generator=self.generator) + noise

    def state_dict(self):
        return {"generator": self.generator.get_state(), "drawn": list(self.drawn)}

    def load_state_dict(self, state):
        self.generator.set_state(state["generator"])
        self.drawn = list(state["drawn"])


def begin(*, optimizer="sgd", scheduler="cosine", policy="fp32", seed=0, width=6, **options):
    """(update, data) of a training before its first attempt, with the global generators seeded."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    model = Net(width)
    made, schedule = OPTIMIZERS[optimizer], SCHEDULERS[scheduler]
    if not policy.endswith(("-master", "-pure")):  # those make theirs from the parameters that they keep
        made = made(model.parameters())
        schedule = schedule(made)
    scale = truestep.LossScale.dynamic(init=2.0**20, interval=3) if policy.startswith("fp16") else None
    return truestep.Update(model, made, loss=loss, policy=policy, scale=scale, scheduler=schedule, **options), Drawn()


def train(update, data, attempts):
    """The outcomes of so many attempts, of two microbatches each."""
    return [update([data.batch(), data.batch()]) for _ in range(attempts)]


def state(update, data):
    """All that makes two trainings equal, as plain values, bit for bit."""
    return plain(
        {
            "model": update.model.state_dict(),
            "weights": update.weights(),
            "optimizers": [o.state_dict() for o in update.optimizers],
            "schedulers": [s.state_dict() for s in update.schedulers],
            "update": update.state_dict(),
            "counts": update.counts,
            "data": data.state_dict(),
            "draws": [torch.get_rng_state(), random.getstate(), np.random.get_state()],
        }
    )


def plain(value):
    """Tensors and arrays as their bytes: equal means equal in every bit, NaN included."""
    if isinstance(value, torch.Tensor):
        return (
            str(value.dtype),
            tuple(value.shape),
            value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(),
        )
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
