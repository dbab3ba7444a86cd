"""Law 3: attempts = completed + skipped, and the schedule stands where its declared clock says."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, poisoned
from truestep.errors import ClockError

CLOCKS = ["completed", "attempt", "epoch", truestep.Every(examples=5), truestep.Every(tokens=7)]


@settings(deadline=None, max_examples=40)
@given(
    program=st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.booleans()), min_size=1, max_size=12),
    clock=st.sampled_from(CLOCKS),
)
def test_counts_and_schedule_agree_with_a_recount_of_the_outcomes(
    program: list[tuple[int, bool, bool]], clock: str | truestep.Every
) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda tick: 1.0 / (1 + tick))
    update = truestep.Update(
        model, optimizer, loss=cross_entropy, scheduler=scheduler, clock=clock, tokens=lambda data: 3 * len(data[1])
    )
    seen, applied, completed, skipped, epochs = 0, 0, 0, 0, 0
    for size, poison, ends_epoch in program:
        window = truestep.Window([poisoned(batch(size)) if poison else batch(size)])
        window.ends_epoch = ends_epoch
        counts = update(window).counts
        seen, epochs = seen + size, epochs + ends_epoch
        completed, skipped, applied = completed + (not poison), skipped + poison, applied + size * (not poison)
        assert (counts.attempts, counts.completed, counts.skipped) == (completed + skipped, completed, skipped)
        assert (counts.examples_seen, counts.examples_applied) == (seen, applied)
        assert (counts.tokens_seen, counts.tokens_applied) == (3 * seen, 3 * applied)
        due = {"completed": completed, "attempt": completed + skipped, "epoch": epochs}
        ticks = due[clock] if isinstance(clock, str) else applied // 5 if clock.examples else 3 * applied // 7
        assert counts.ticks == ticks == scheduler.last_epoch
        assert optimizer.param_groups[0]["lr"] == 1.0 / (1 + ticks)


def test_a_hundred_attempts_of_which_ten_are_skipped_are_ninety_completed() -> None:
    model = mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    for index in range(100):
        update([poisoned(batch(2)) if index % 10 == 3 else batch(2)])
    assert (update.counts.attempts, update.counts.completed, update.counts.skipped) == (100, 90, 10)
    assert dict(update.counts.skipped_by_reason) == {"non-finite input": 10}


def test_the_learning_rate_of_an_outcome_is_the_one_its_update_used() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    update = truestep.Update(model, optimizer, loss=cross_entropy, scheduler=scheduler)
    assert [update([batch(2)]).lr for _ in range(3)] == [(1.0,), (0.5,), (0.25,)]


def test_without_a_schedule_nothing_ticks() -> None:
    model = mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    assert update([batch(2)]).counts.ticks == 0


def test_counts_that_nobody_told_are_not_made_up() -> None:
    model = mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy)
    with update.attempt(total=4) as attempt:
        attempt.backward(cross_entropy(model, batch(4)), 4)
    assert attempt.outcome.examples is None
    assert attempt.outcome.tokens is None
    assert attempt.outcome.counts.tokens_seen is None


@pytest.mark.parametrize(
    ("clock", "says"),
    [("step", "completed, attempt, epoch"), (truestep.Every(tokens=5), "tokens=")],
)
def test_a_clock_that_cannot_be_read_is_refused(clock: str | truestep.Every, says: str) -> None:
    model = mlp()
    with pytest.raises(ClockError, match=says):
        truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=cross_entropy, clock=clock)


@pytest.mark.parametrize("interval", [{}, {"examples": 1, "tokens": 1}, {"examples": 0}, {"tokens": -3}])
def test_an_interval_names_one_positive_count(interval: dict[str, int]) -> None:
    with pytest.raises(ClockError, match="Every"):
        truestep.Every(**interval)


def test_a_schedule_that_a_clock_cannot_drive_is_refused() -> None:
    model, other = mlp(), mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    foreign = torch.optim.lr_scheduler.StepLR(torch.optim.SGD(other.parameters(), lr=0.1), 1)
    with pytest.raises(ClockError, match="ReduceLROnPlateau"):
        truestep.Update(model, optimizer, loss=cross_entropy, scheduler=plateau)
    with pytest.raises(ClockError, match="another optimizer"):
        truestep.Update(model, optimizer, loss=cross_entropy, scheduler=foreign)
