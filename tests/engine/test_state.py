"""An update goes on from its saved state as if nothing had happened between."""

from __future__ import annotations

import io
import json

import pytest
import torch

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, poisoned, same, weights
from truestep.errors import StateError


def build(**options: object) -> tuple[truestep.Update, torch.optim.lr_scheduler.LRScheduler]:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    options = {"policy": "fp16", "scale": truestep.LossScale.dynamic(2.0**20, interval=2)} | options
    return truestep.Update(model, optimizer, loss=cross_entropy, scheduler=scheduler, **options), scheduler


def states(update: truestep.Update, scheduler: torch.optim.lr_scheduler.LRScheduler) -> list[dict[str, object]]:
    return [part.state_dict() for part in (update.plan.model, update.optimizers[0], scheduler, update)]


WINDOWS = [[batch(4, seed)] if seed != 3 else [poisoned(batch(4))] for seed in range(8)]


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 7])
def test_an_update_goes_on_bit_for_bit_from_a_checkpoint(cut: int) -> None:
    whole, _ = build()
    outcomes = [whole(window) for window in WINDOWS]
    first, scheduler = build()
    for window in WINDOWS[:cut]:
        first(window)
    file = io.BytesIO()
    torch.save(states(first, scheduler), file)
    file.seek(0)
    second, scheduler = build()
    parts = (second.plan.model, second.optimizers[0], scheduler, second)
    for part, state in zip(parts, torch.load(file, weights_only=True), strict=True):
        part.load_state_dict(state)
    again = [second(window) for window in WINDOWS[cut:]]
    assert same(weights(whole.plan.model), weights(second.plan.model))
    assert (whole.scale, whole.counts) == (second.scale, second.counts)
    assert [o.loss for o in outcomes[cut:] if o.completed] == [o.loss for o in again if o.completed]


def test_a_state_survives_json_with_no_field_at_its_default() -> None:
    update, _ = build(tokens=lambda data: 5)
    for window in WINDOWS:
        update(window)
    assert all(getattr(update.counts, name) for name in ("skipped_by_reason", "examples_applied", "tokens_seen", "ticks"))
    fresh, _ = build()
    fresh.load_state_dict(json.loads(json.dumps(update.state_dict())))
    assert (fresh.scale, fresh.counts) == (update.scale, update.counts)


def test_a_grad_scalers_state_is_read() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=512.0, growth_factor=4.0, backoff_factor=0.25, growth_interval=7)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    scaler.scale(parameter.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    update, _ = build()
    update.load_state_dict(scaler.state_dict())
    scale = update.scale
    assert (scale.value, scale.growth, scale.backoff, scale.interval, scale.growth_count) == (512.0, 4.0, 0.25, 7, 1)
    assert update.counts == truestep.Counts()


SCALER = torch.amp.GradScaler("cpu").state_dict()


def test_a_grad_scaler_below_the_floor_is_lifted_to_it() -> None:
    update, _ = build()
    update.load_state_dict(SCALER | {"scale": 2.0**-20})
    assert update.scale.value == update.scale.min == 2.0**-16


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"schema": 2},
        {"schema": 1, "scale": {}},
        {"schema": 1, "scale": {"size": 1}, "counts": {}},
        {"schema": 1, "scale": {"kind": "dynamic", "value": -1.0}, "counts": {}},
        {"_growth_tracker": 0},
        SCALER | {"scale": float("inf")},
        SCALER | {"scale": "large"},
        SCALER | {"growth_interval": None},
    ],
)
def test_what_is_no_state_is_refused_and_changes_nothing(bad: dict[str, object]) -> None:
    update, _ = build()
    before = update.state_dict()
    with pytest.raises(StateError):
        update.load_state_dict(bad)
    assert update.state_dict() == before


def test_a_state_is_not_loaded_inside_an_attempt() -> None:
    model = mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    state = update.state_dict()
    with pytest.raises(StateError, match="open already"), update.attempt():
        update.load_state_dict(state)
    update.load_state_dict(state)
