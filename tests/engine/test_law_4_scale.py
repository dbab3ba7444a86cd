"""Law 4: the loss scale follows torch.amp.GradScaler step by step until its limits bind, and never leaves (0, inf)."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, poisoned
from truestep import LossScale
from truestep.errors import PolicyError

FLOAT32_MAX = torch.finfo(torch.float32).max


def torch_walk(scale: LossScale, walk: list[bool], optimizers: int = 1) -> list[float]:
    """The scales of torch.amp.GradScaler over attempts whose gradients are finite or not."""
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=scale.value, growth_factor=scale.growth, backoff_factor=scale.backoff, growth_interval=scale.interval
    )
    pairs = [nn.Parameter(torch.zeros(1)) for _ in range(optimizers)]
    steps = [torch.optim.SGD([p], lr=0.0) for p in pairs]
    scales = []
    for index, finite in enumerate(walk):
        scaler.scale(torch.zeros(()))
        for k, (p, optimizer) in enumerate(zip(pairs, steps, strict=True)):
            p.grad = torch.full((1,), math.inf if not finite and k == index % optimizers else 1.0)
            scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales


@settings(deadline=None, max_examples=150)
@given(
    walk=st.lists(st.booleans(), min_size=1, max_size=60),
    init=st.sampled_from([1.0, 3.0, 1000.0, 65536.0, 2.0**100, 2.0**127, FLOAT32_MAX]),
    growth=st.sampled_from([2.0, 1.5, 1.1, 1e30]),
    backoff=st.sampled_from([0.5, 0.75, 0.1]),
    interval=st.integers(1, 4),
    optimizers=st.integers(1, 3),
)
def test_every_transition_is_torchs_until_a_limit_binds(
    walk: list[bool], init: float, growth: float, backoff: float, interval: int, optimizers: int
) -> None:
    scale = LossScale.dynamic(init, growth=growth, backoff=backoff, interval=interval, min=torch.finfo(torch.float32).tiny)
    for finite, theirs in zip(walk, torch_walk(scale, walk, optimizers), strict=True):
        scale = scale.after(finite=finite)
        if theirs < scale.min:
            assert scale.value == scale.min
            return
        assert scale.value == theirs


def test_growth_stops_at_the_float32_limit_as_torchs_does() -> None:
    scale = LossScale.dynamic(2.0**126, interval=1)
    walk = [True] * 6
    assert [(scale := scale.after(finite=True)).value for _ in walk] == torch_walk(LossScale.dynamic(2.0**126, interval=1), walk)
    assert scale.value == 2.0**127


def test_decay_stops_at_the_floor_where_torchs_scale_reaches_zero() -> None:
    scale = LossScale.dynamic()
    for _ in range(200):
        scale = scale.after(finite=False)
    assert scale.value == 2.0**-16
    assert torch_walk(LossScale.dynamic(), [False] * 166)[-1] == 0.0
    assert scale.after(finite=True).growth_count == 1


@settings(deadline=None, max_examples=100)
@given(
    walk=st.lists(st.booleans(), max_size=80),
    low=st.sampled_from([2.0**-16, 1.0, 64.0]),
    high=st.sampled_from([None, 65536.0, 2.0**20]),
    interval=st.integers(1, 3),
)
def test_no_walk_leaves_the_limits(walk: list[bool], low: float, high: float | None, interval: int) -> None:
    scale = LossScale.dynamic(65536.0, min=low, max=high, interval=interval, growth=4.0)
    for finite in walk:
        scale = scale.after(finite=finite)
        assert low <= scale.value <= (FLOAT32_MAX if high is None else high)
        assert math.isfinite(scale.value)


@pytest.mark.parametrize("scale", [LossScale.static(1024.0), LossScale.none()])
def test_a_fixed_scale_stays(scale: LossScale) -> None:
    assert scale.after(finite=False).after(finite=True) == scale


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan, 0.1, 1e39, 1e-46, 2.0**-140])
def test_what_is_no_positive_float32_number_is_no_scale(bad: float) -> None:
    with pytest.raises(PolicyError, match="float32"):
        LossScale.static(bad)


@pytest.mark.parametrize(
    "settings",
    [{"min": 0.0}, {"min": 2.0**17}, {"max": 1.0}, {"growth": 1.0}, {"backoff": 1.0}, {"backoff": 0.0}, {"interval": 0}],
)
def test_limits_and_factors_that_cannot_work_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(PolicyError):
        LossScale.dynamic(**settings)


def overflowing(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """A loss whose float16 backward overflows at a scale of 2^16 and not at 2^10."""
    return 16.0 * cross_entropy(model, data)


def updating(loss, **options) -> truestep.Update:
    model = mlp()
    with torch.no_grad():
        model[2].weight.mul_(8.0)
    return truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=loss, policy="fp16", **options)


def test_a_curable_overflow_moves_the_scale_and_a_completed_attempt_counts_towards_growth() -> None:
    update = updating(overflowing, scale=LossScale.dynamic(2.0**24))
    outcomes = [update([batch(2)]) for _ in range(16)]
    skipped = [o for o in outcomes if not o.completed]
    assert skipped
    for outcome in skipped:
        assert outcome.skip.reason is truestep.Reason.BACKWARD
        assert outcome.skip.curable
        assert outcome.next_loss_scale == outcome.loss_scale / 2
    assert outcomes[-1].completed
    assert update.scale.growth_count == len(outcomes) - len(skipped)


def test_a_skip_that_no_scale_can_cure_leaves_scale_and_growth_count_alone() -> None:
    update = updating(cross_entropy, scale=LossScale.dynamic(1024.0))
    update([batch(2)])
    before = update.scale
    outcome = update([poisoned(batch(2))])
    assert not outcome.skip.curable
    assert update.scale == before


def test_incurable_backoff_is_grad_scalers_behaviour() -> None:
    walk = [True, False, True, True, False, False]
    update = updating(cross_entropy, scale=LossScale.dynamic(1024.0, interval=2), incurable="backoff")
    scales = [update([batch(2) if finite else poisoned(batch(2))]).next_loss_scale for finite in walk]
    assert scales == torch_walk(LossScale.dynamic(1024.0, interval=2), walk)


def test_a_long_clean_run_stays_at_the_first_scale_until_the_interval() -> None:
    scale = LossScale.dynamic()
    for _ in range(1999):
        scale = scale.after(finite=True)
    assert scale.value == 65536.0
    assert scale.after(finite=True).value == 131072.0
