"""Law 12: a short window is divided by its own total; nothing is carried into the next epoch, whose end ticks its schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import truestep
from tests.engine.loops import batch, cross_entropy, mlp, poisoned, same, split
from truestep.errors import WindowError


@given(count=st.integers(0, 30), size=st.integers(1, 8))
def test_windows_hold_every_microbatch_once_in_order_and_mark_the_last(count: int, size: int) -> None:
    found = list(truestep.windows(range(count), size))
    assert [item for window in found for item in window] == list(range(count))
    assert all(len(window) == size for window in found[:-1])
    assert [window.ends_epoch for window in found] == [False] * (len(found) - 1) + [True] * (count > 0)


def test_a_short_last_window_has_the_gradient_of_its_own_mean() -> None:
    data = split(batch(10), [2] * 5)
    model, alone = mlp(), mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=cross_entropy)
    outcomes = [update(window) for window in truestep.windows(data, 4)]
    (cross_entropy(alone, data[4])).backward()
    assert [outcome.weight for outcome in outcomes] == [8, 2]
    assert same([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])


def test_each_epoch_starts_with_an_empty_window() -> None:
    data = split(batch(10), [2] * 5)
    sizes = [[len(window) for window in truestep.windows(data, 4)] for _ in range(2)]
    assert sizes == [[4, 1], [4, 1]]


@pytest.mark.parametrize("last_is_skipped", [False, True])
def test_an_epochs_schedule_ticks_at_the_epochs_end(last_is_skipped: bool) -> None:
    data = split(batch(10), [2] * 5)
    if last_is_skipped:
        data[4] = poisoned(data[4])
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    update = truestep.Update(model, optimizer, loss=cross_entropy, scheduler=scheduler, clock="epoch")
    rates = [update(window).lr[0] for _ in range(2) for window in truestep.windows(data, 2)]
    assert rates == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5]
    assert update.counts.ticks == 2


def test_a_block_says_itself_that_it_ends_an_epoch() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    update = truestep.Update(model, optimizer, loss=cross_entropy, scheduler=scheduler, clock="epoch")
    for ends in (False, True):
        with update.attempt(total=2, ends_epoch=ends) as attempt:
            attempt.backward(cross_entropy(model, batch(2)), 2)
    assert update.counts.ticks == 1


@pytest.mark.parametrize("size", [0, -1])
def test_a_window_has_room_for_a_microbatch(size: int) -> None:
    with pytest.raises(WindowError, match="1 or more"):
        truestep.windows([1, 2], size)


class Counting:
    """Microbatches that count how many of them were taken."""

    def __init__(self, total: int) -> None:
        self.total, self.taken = total, 0

    def __iter__(self) -> Iterator[int]:
        while self.taken < self.total:
            self.taken += 1
            yield self.taken


class Telling(Counting):
    """Microbatches that know when they are over."""

    @property
    def ends_epoch(self) -> bool:
        return self.taken == self.total


@pytest.mark.parametrize(("total", "size"), [(6, 2), (5, 2), (4, 4), (3, 1), (0, 2)])
def test_nothing_is_taken_before_it_is_used_unless_somebody_asks_for_the_end(total: int, size: int) -> None:
    counting = Counting(total)
    used = 0
    for window in truestep.windows(counting, size):
        used += len(window)
        assert counting.taken == used
    assert used == total


@pytest.mark.parametrize("kind", [Counting, Telling])
@pytest.mark.parametrize(("total", "size"), [(6, 2), (5, 2), (4, 4), (3, 1)])
def test_the_end_is_told_whenever_it_is_asked_for_and_read_ahead_where_nobody_knows(kind: Any, total: int, size: int) -> None:
    for asks in (True, False):
        source, used, found, ends = kind(total), 0, [], []
        for window in truestep.windows(source, size):
            used += len(window)
            found.append(window)
            if asks:
                ends.append(window.ends_epoch)
                assert source.taken == min(used + (kind is Counting), total)
        assert [microbatch for window in found for microbatch in window] == list(range(1, total + 1))
        assert [window.ends_epoch for window in found] == [*[False] * (len(found) - 1), True]
        assert not asks or ends == [window.ends_epoch for window in found]
