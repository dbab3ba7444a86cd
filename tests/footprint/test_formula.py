"""Bytes by formula: the golden rows, the engine's own storages, the optimizers' own states, and what cannot be asked."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.profile import FULL
from truestep import Update
from truestep.engine.policy import POLICIES
from truestep.errors import PolicyError, UsageError
from truestep.footprint import memory
from truestep.footprint.formula import per_parameter
from truestep.footprint.optimizers import OPTIMIZERS, optimizer_bytes

WIDTH = 128
MADE = {
    "sgd": lambda params, **more: torch.optim.SGD(params, lr=0.1, **more),
    "sgd-momentum": lambda params, **more: torch.optim.SGD(params, lr=0.1, momentum=0.9, **more),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adamw-amsgrad": lambda params, **more: torch.optim.AdamW(params, amsgrad=True, **more),
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "adamax": torch.optim.Adamax,
    "adadelta": torch.optim.Adadelta,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
}


@pytest.mark.parametrize(
    ("policy", "microbatches", "total"),
    [("fp32", 1, 16), ("bf16", 1, 16), ("fp16", 4, 16), ("fp16-master", 1, 16), ("bf16-master", 4, 18), ("bf16-pure", 1, 8)],
)
def test_the_golden_bytes_of_adam_for_a_parameter(policy: str, microbatches: int, total: int) -> None:
    assert per_parameter(POLICIES[policy], optimizer_bytes("adam"), microbatches=microbatches).total == total


def test_autocast_casts_two_bytes_for_a_while() -> None:
    assert memory(params=10, policy="bf16").transients[0].bytes_per_parameter == 2


def test_zero_divides_seven_and_a_half_billion_parameters_among_64() -> None:
    found = memory(params="7.5B", optimizer="adam", policy="fp16-master", shards=64)
    assert [round(stage.total_bytes / 1e9, 1) for stage in found.stages] == [120.0, 31.4, 16.6, 1.9]
    one = memory(params=7.5e9, optimizer="adam", policy="fp16-master", shards=64, shard="gradients")
    assert [stage.shard for stage in one.stages] == [None, "gradients"]
    assert one.total_bytes == found.stages[2].total_bytes
    assert "31.4" in str(found)


@pytest.mark.parametrize("microbatches", [1, 2] if FULL else [2])
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "tf32"] if FULL else ["fp32", "bf16-master"])
def test_the_formula_is_what_the_engine_stores(policy: str, microbatches: int) -> None:
    model = nn.Linear(WIDTH, WIDTH, bias=False)
    update = Update(model, torch.optim.AdamW, loss=lambda model, x: model(x).square().mean(), policy=policy)
    each = memory(update, [torch.ones(1, WIDTH)] * microbatches, measure=False).predicted.each
    told = memory(params=WIDTH**2, policy=policy, microbatches=microbatches).stages[0].per_parameter
    step_count = 4
    assert each.weights == told.weights * WIDTH**2
    assert each.masters == told.masters * WIDTH**2
    assert each.moments == told.moments * WIDTH**2 + step_count
    if told.gradients:
        assert each.gradients == told.gradients * WIDTH**2
    else:
        assert each.accumulators == told.accumulators * WIDTH**2


UNLIKE = {(OPTIMIZERS[name].moments, OPTIMIZERS[name].foreach): name for name in MADE}
"""One optimizer for each row of numbers."""


@pytest.mark.parametrize("name", MADE if FULL else UNLIKE.values())
def test_an_optimizer_keeps_and_copies_what_the_table_says(name: str) -> None:
    model = nn.Linear(WIDTH, WIDTH, bias=False)
    update = Update(model, MADE[name](model.parameters(), foreach=True), loss=lambda model, x: model(x).sum())
    later = memory(update, [torch.ones(1, WIDTH)], measure=False).predicted.later.account
    count = WIDTH**2
    assert later.each.moments // count == OPTIMIZERS[name].moments
    held = later.each.weights + later.each.gradients + later.each.moments + later.each.batch
    assert (later.phase_bytes.get("step", held) - held) // count == OPTIMIZERS[name].foreach


@pytest.mark.parametrize("asked", [0, -1, "-7B", "0", "many", "", "7.5X", "nan", 0.5, "1.5"])
def test_what_is_no_count_is_refused(asked: str | float) -> None:
    with pytest.raises(UsageError):
        memory(params=asked)


def test_unknown_names_and_divisions_are_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="adamw"):
        memory(params=1, optimizer="adamv")
    with pytest.raises(PolicyError, match="bf16-pure"):
        memory(params=1, policy="fp8")
    with pytest.raises(UsageError, match="shards is 0"):
        memory(params=1, shards=0)
    with pytest.raises(UsageError, match="among 1 shard"):
        memory(params=1, shard="states")
    with pytest.raises(UsageError, match="microbatches is 0"):
        memory(params=1, microbatches=0)
    with pytest.raises(UsageError, match="choose one of: states"):
        memory(params=1, shards=2, shard="weights")
    with pytest.raises(UsageError, match="one of them"):
        memory("digits", params=1)
    with pytest.raises(UsageError, match="optimizer= says nothing about a task"):
        memory("digits", optimizer="adam")
    with pytest.raises(UsageError, match="nothing was named"):
        memory()
