"""The bytes of real attempts with Adam, measured as truestep.memory does."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import torch

import truestep
from truestep.footprint.attempting import attempted
from truestep.footprint.log import Categories

WIDTH, BATCH, LAYERS = 256, 8, 4
SMALL = 32
"""The width of a model that is attempted under each policy: bytes of a parameter do not depend on it."""


@contextmanager
def only_own_garbage() -> Iterator[None]:
    """Each attempt has its garbage collected first: of all that was imported, that takes ten times the attempt itself."""
    if gc.get_freeze_count():  # whoever has frozen something means to keep it so
        yield
        return
    torch.optim.Adam([torch.zeros(())])  # the first optimizer of a process imports torch's compiler: not our garbage either
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def attempt(name: str) -> Categories:
    """The bytes of an attempt of two small layers with Adam, each kind at its highest, measured as `truestep.memory` does."""
    policy, _, more = name.partition(", ")
    model = torch.nn.Sequential(torch.nn.Linear(SMALL, SMALL), torch.nn.Linear(SMALL, SMALL))
    update: truestep.Update[torch.Tensor] = truestep.Update(model, torch.optim.Adam, loss=mean, policy=policy)
    window = [torch.ones(BATCH, SMALL)] * (4 if more else 1)
    outcome, found = attempted(update, window, update.plan.measure(window))
    assert outcome.completed
    return found.account.each


def mean(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """The mean output, in float32."""
    return torch.mean(model(x).float())


def footprint(policy: str) -> truestep.Footprint:
    """The memory of an attempt of four layers with Adam, predicted and measured."""
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    optimizer = torch.optim.Adam(model.parameters())
    update: truestep.Update[torch.Tensor] = truestep.Update(model, optimizer, loss=lambda model, x: model(x).sum(), policy=policy)
    return truestep.memory(update, [torch.ones(BATCH, WIDTH)])
