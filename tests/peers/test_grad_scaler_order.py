"""torch.amp.GradScaler lets a loop call things in the wrong order (torch 2.14.1); an update has one order."""

import math

import pytest
import torch
from torch import nn
from torch.amp import GradScaler
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import SGD

import truestep
from truestep.errors import UpdateError

SCALE = 2.0**16  # GradScaler's first scale and the fp16 policy's: a power of two, so that scaling and unscaling are exact
SMALL = torch.tensor([0.02, 0.02])
ONE = torch.tensor([1.0])
HUGE = torch.tensor([1e35, 0.02])  # finite, and so is its loss of 0; times 65536 it is beyond float32


def test_clipping_before_unscale_is_silent_there_and_has_no_place_here(line, slope, make_update):
    theirs, scaler = line(2), GradScaler("cpu")
    optimizer = SGD(theirs.parameters(), lr=1.0)
    scaler.scale(slope(theirs, SMALL)).backward()
    norm = clip_grad_norm_(theirs.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    assert norm.item() == pytest.approx(1853.6, abs=0.1)  # 65536 * 0.0283
    # A gradient far below the limit was cut all the same: 1/65536 of a unit vector is left of it, 1853.6 times too little.
    assert theirs.reached().norm().item() == pytest.approx(1 / SCALE, rel=1e-6)

    ours = line(2)
    outcome = make_update(ours, clip=truestep.ClipNorm(1.0))([SMALL])
    # Two squares, a sum and a root in float32, each rounded by at most 2^-24: below 2^-22.
    assert outcome.grad_norm == pytest.approx(math.hypot(*SMALL.tolist()), rel=2.0**-22)
    assert outcome.grad_norm_clipped == outcome.grad_norm
    assert torch.equal(ours.reached(), SMALL)


def test_clipping_by_value_hides_an_infinity_there_and_comes_after_the_finite_check_here(line, slope, make_update):
    theirs, scaler = line(2), GradScaler("cpu")
    optimizer = SGD(theirs.parameters(), lr=1.0)
    scaler.scale(slope(theirs, HUGE)).backward()
    assert math.isinf(theirs.weight.grad[0])
    clip_grad_value_(theirs.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(theirs.reached(), torch.tensor([1.0, 1.0]) / SCALE)  # stepped, along no gradient
    assert scaler.get_scale() == SCALE  # and the scale that overflowed stays

    ours = line(2)
    update = make_update(ours, clip=truestep.ClipValue(1.0))
    skipped = [update([HUGE]) for _ in range(5)]
    assert [outcome.skip.reason for outcome in skipped] == [truestep.Reason.BACKWARD] * 5
    assert skipped[0].skip.place == "weight"
    assert torch.equal(ours.reached(), torch.zeros(2))
    # At 2048 it fits: 1e35 * 2048 = 2.0e38. Then it is a large value, and cut to the limit.
    assert update([HUGE]).loss_scale == 2048.0
    assert torch.equal(ours.reached(), torch.tensor([1.0, 0.02]))


def test_unscale_inside_a_window_gives_65537_for_2_there_and_cannot_be_said_here(line, slope, make_update):
    theirs, scaler = line(1), GradScaler("cpu")
    optimizer = SGD(theirs.parameters(), lr=1.0)
    scaler.scale(slope(theirs, ONE)).backward()
    scaler.unscale_(optimizer)
    scaler.scale(slope(theirs, ONE)).backward()
    scaler.step(optimizer)
    assert theirs.reached().item() == 65537.0

    ours = line(1)
    assert make_update(ours)([ONE, ONE]).completed
    assert ours.reached().item() == 2.0


def test_a_new_scale_inside_a_window_gives_65_for_2_there_and_waits_for_the_next_attempt_here(line, slope, make_update):
    theirs, scaler = line(1), GradScaler("cpu")
    optimizer = SGD(theirs.parameters(), lr=1.0)
    scaler.scale(slope(theirs, ONE)).backward()
    scaler.update(new_scale=1024.0)
    scaler.scale(slope(theirs, ONE)).backward()
    scaler.step(optimizer)
    assert theirs.reached().item() == 65.0  # 65536 / 1024 + 1

    ours = line(1)
    update = make_update(ours)
    with update.attempt() as attempt, attempt.autocast():
        attempt.backward(slope(ours, ONE), share=1.0)
        update.scale = truestep.LossScale.static(1024.0)
        attempt.backward(slope(ours, ONE), share=1.0)
    assert ours.reached().item() == 2.0
    assert (attempt.outcome.loss_scale, attempt.outcome.next_loss_scale) == (SCALE, 1024.0)


@pytest.mark.parametrize("to_none", [True, False])
def test_zeroing_between_backward_and_step_is_silent_there_where_zeros_are_left(line, slope, to_none):
    theirs, scaler = line(1), GradScaler("cpu")
    optimizer = SGD(theirs.parameters(), lr=1.0)
    scaler.scale(slope(theirs, ONE)).backward()
    optimizer.zero_grad(set_to_none=to_none)
    if to_none:
        with pytest.raises(AssertionError, match="No inf checks were recorded"):
            scaler.step(optimizer)
    else:
        scaler.step(optimizer)
        scaler.update()
        assert scaler.state_dict()["_growth_tracker"] == 1  # it counts as a step that went well
    assert theirs.reached().item() == 0.0


def test_zeroing_before_the_step_is_an_error_here_and_counts_as_nothing(line, slope, make_update):
    ours = line(1)
    optimizer = SGD(ours.parameters(), lr=1.0)
    update = make_update(ours, optimizer)

    def zero_inside():
        with update.attempt() as attempt, attempt.autocast():
            attempt.backward(slope(ours, ONE), share=1.0)
            optimizer.zero_grad()

    with pytest.raises(UpdateError, match="gradient"):
        zero_inside()
    assert update.counts == truestep.Counts()
    assert update([ONE]).completed  # the update is as it was, and goes on
    assert ours.reached().item() == 1.0


def test_unscaling_twice_is_an_error_there_but_silent_when_the_first_is_by_hand(line, slope, make_update):
    theirs, scaler = line(2), GradScaler("cpu")
    optimizer = SGD(theirs.parameters(), lr=1.0)
    scaler.scale(slope(theirs, SMALL)).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)

    theirs, scaler = line(2), GradScaler("cpu")
    optimizer = SGD(theirs.parameters(), lr=1.0)
    scaler.scale(slope(theirs, SMALL)).backward()
    theirs.weight.grad /= scaler.get_scale()
    scaler.step(optimizer)
    assert torch.equal(theirs.reached(), SMALL / SCALE)

    ours = line(2)
    make_update(ours)([SMALL])
    assert torch.equal(ours.reached(), SMALL)


@pytest.mark.parametrize(
    ("first", "interval", "wrong_by"),
    [
        pytest.param(SMALL, 2000, 1.0, id="the scale stays"),
        pytest.param(SMALL, 1, 0.5, id="the scale grew"),
        pytest.param(HUGE, 2000, 2.0, id="the first overflowed"),
    ],
)
def test_updating_the_scale_after_each_of_two_optimizers_is_wrong_there_once_it_moves(line, slope, first, interval, wrong_by):
    one, two = line(2), line(2)
    scaler = GradScaler("cpu", growth_interval=interval)
    optimizers = [SGD(model.parameters(), lr=1.0) for model in (one, two)]
    scaler.scale(slope(one, first) + slope(two, SMALL)).backward()
    for optimizer in optimizers:
        scaler.step(optimizer)
        scaler.update()
    assert torch.equal(two.reached(), wrong_by * SMALL)


@pytest.mark.parametrize(("first", "interval"), [(SMALL, 2000), (SMALL, 1), (HUGE, 2000)])
def test_each_optimizer_has_its_own_scale_here(line, slope, make_update, first, interval):
    both = nn.ModuleList([line(2), line(2)])
    scale = truestep.LossScale.dynamic(interval=interval)
    updates = [
        make_update(
            both,
            SGD(model.parameters(), lr=1.0),
            scale=scale,
            loss=lambda models, pair: slope(models[0], pair[0]) + slope(models[1], pair[1]),
        )
        for model in both
    ]
    outcomes = [updates[0]([(first, SMALL)])]
    assert both[1].weight.grad is None  # the backward would have reached it, and left nothing there
    outcomes.append(updates[1]([(first, SMALL)]))
    assert [outcome.completed for outcome in outcomes] == [first is SMALL, True]
    assert torch.equal(both[0].reached(), SMALL if first is SMALL else torch.zeros(2))
    assert torch.equal(both[1].reached(), SMALL)
