"""torch.amp.GradScaler misses overflows, lets its scale fall to 0, and does not say whether it stepped (torch 2.14.1)."""

import math

import pytest
import torch
from torch.amp import GradScaler
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import LambdaLR

import truestep

INFINITE = torch.tensor([math.inf, 1.0])
CLEAN = torch.tensor([3.0, 4.0])
HUGE = torch.tensor([1e35, 1.0])  # beyond float32 once scaled by 65536


def attempt_with_scaler(scaler, optimizer, loss):
    """The usual loop's body; what `step` returned."""
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    returned = scaler.step(optimizer)
    scaler.update()
    return returned


@pytest.mark.parametrize("fused", [False, True])
def test_after_166_overflows_the_scale_is_0_there_and_the_next_clean_gradient_is_written_as_nan(line, slope, fused):
    theirs, scaler = line(2), GradScaler("cpu")
    optimizer = SGD(theirs.parameters(), lr=1.0, fused=fused)
    for _ in range(165):
        attempt_with_scaler(scaler, optimizer, slope(theirs, INFINITE))
    assert scaler.get_scale() == 2.0**-149  # the smallest float32 above 0
    attempt_with_scaler(scaler, optimizer, slope(theirs, INFINITE))
    assert scaler.get_scale() == 0.0
    assert torch.equal(theirs.reached(), torch.zeros(2))
    attempt_with_scaler(scaler, optimizer, slope(theirs, CLEAN))  # 0 * gradient passes the check, then 0 / 0
    assert theirs.reached().isnan().all()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("incurable", "scale"), [("keep", 2.0**16), ("backoff", 2.0**-16)])
def test_after_166_overflows_the_next_clean_gradient_is_applied_here(line, make_update, fused, incurable, scale):
    ours = line(2)
    update = make_update(ours, SGD(ours.parameters(), lr=1.0, fused=fused), incurable=incurable)
    for _ in range(166):
        update([INFINITE])
    outcome = update([CLEAN])
    assert outcome.loss_scale == scale
    assert dict(outcome.counts.skipped_by_reason) == {truestep.Reason.INPUT: 166}
    assert torch.equal(ours.reached(), CLEAN)  # exact: either scale is a power of two


FACTORS = torch.tensor([[1e20, 1.0], [1e19, 1.0]])  # a gradient of 1e39: no float32, but 2^-10 of it is one


def test_an_overflow_by_unscaling_is_not_seen_there_and_skips_here(line, make_update):
    def product(model, factors):
        return (model.weight * factors[0] * factors[1]).sum()

    theirs, scaler = line(2), GradScaler("cpu", init_scale=2.0**-10)
    optimizer = SGD(theirs.parameters(), lr=1.0)
    attempt_with_scaler(scaler, optimizer, product(theirs, FACTORS))
    assert theirs.reached().tolist() == [math.inf, 1.0]

    ours = line(2)
    update = make_update(ours, loss=product, scale=truestep.LossScale.dynamic(2.0**-10))
    outcome = update([FACTORS])
    assert (outcome.skip.reason, outcome.skip.place) == (truestep.Reason.UNSCALE, "weight")
    assert outcome.next_loss_scale == 2.0**-10  # a smaller scale would not help
    assert torch.equal(ours.reached(), torch.zeros(2))


@pytest.mark.parametrize("fused", [False, True])
def test_step_returns_none_whether_or_not_it_stepped_there_and_the_outcome_says_it_here(line, slope, make_update, fused):
    theirs, scaler = line(2), GradScaler("cpu")
    optimizer = SGD(theirs.parameters(), lr=1.0, fused=fused)
    returned = [attempt_with_scaler(scaler, optimizer, slope(theirs, batch)) for batch in (INFINITE, CLEAN)]
    assert returned == [None, None]

    ours = line(2)
    update = make_update(ours, SGD(ours.parameters(), lr=1.0, fused=fused))
    assert [update([batch]).completed for batch in (INFINITE, CLEAN)] == [False, True]
    assert torch.equal(ours.reached(), CLEAN)


@pytest.mark.parametrize(("fused", "calls"), [(False, 0), (True, 1)])
def test_a_fused_optimizers_hooks_fire_on_a_skip_there(line, slope, fused, calls):
    theirs, scaler = line(2), GradScaler("cpu")
    optimizer = AdamW(theirs.parameters(), fused=fused)
    counted = []
    optimizer.register_step_pre_hook(lambda *_: counted.append("before"))
    optimizer.register_step_post_hook(lambda *_: counted.append("after"))
    attempt_with_scaler(scaler, optimizer, slope(theirs, INFINITE))
    assert counted == ["before", "after"] * calls
    assert len(optimizer.state) == calls  # the moments are made; only the count in the state is taken back to 0
    assert [state["step"].item() for state in optimizer.state.values()] == [0.0] * calls
    assert torch.equal(theirs.reached(), torch.zeros(2))


@pytest.mark.parametrize("fused", [False, True])
def test_hooks_and_state_advance_exactly_on_completed_attempts_here(line, make_update, fused):
    ours = line(2)
    optimizer = AdamW(ours.parameters(), fused=fused)
    counted = []
    optimizer.register_step_post_hook(lambda *_: counted.append("after"))
    update = make_update(ours, optimizer)
    for batch, steps in ((HUGE, 0), (CLEAN, 1), (INFINITE, 1), (CLEAN, 2)):
        outcome = update([batch])
        assert outcome.completed is (batch is CLEAN)
        assert len(counted) == outcome.counts.completed == steps
        assert [state["step"].item() for state in optimizer.state.values()] == [float(steps)] * (steps > 0)


def test_a_warm_up_from_rate_0_completes_without_moving_so_that_moved_parameters_are_no_skip_test(line, slope, make_update):
    def warm_up(optimizer):
        return LambdaLR(optimizer, lambda tick: min(tick / 2, 1.0))

    theirs, scaler = line(2), GradScaler("cpu")
    optimizer = AdamW(theirs.parameters(), lr=0.1)
    warm_up(optimizer)
    attempt_with_scaler(scaler, optimizer, slope(theirs, CLEAN))
    assert torch.equal(theirs.weight, torch.zeros(2))
    assert optimizer.state[theirs.weight]["step"].item() == 1.0  # it did step

    ours = line(2)
    optimizer = AdamW(ours.parameters(), lr=0.1)
    update = make_update(ours, optimizer, scheduler=warm_up(optimizer), track_moves=True)
    outcomes = [update([CLEAN]) for _ in range(2)]
    assert [(outcome.lr, outcome.completed, outcome.moved()) for outcome in outcomes] == [
        ((0.0,), True, False),
        ((0.05,), True, True),
    ]
