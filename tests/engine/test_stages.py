"""Every second of an attempt whose stages are timed is in exactly one of them; and nobody else's attempt is timed."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import nn

import truestep
from tests.engine.loops import Batch, batch, cross_entropy, mlp, optimizer_state, poisoned, same, weights
from tests.profile import product
from truestep.engine import stages, work
from truestep.engine.clock import Schedule
from truestep.engine.stages import STAGES, kinds_of, watching
from truestep.probe.buffers import Buffers

WINDOW = [batch(2), batch(3)]


def an_update(policy: str = "fp32", optimizer: Callable[..., Any] = torch.optim.SGD, **options: Any) -> truestep.Update[Batch]:
    model = mlp()
    options = {"clip": truestep.ClipNorm(0.1), "time_stages": True} | options
    return truestep.Update(model, optimizer(model.parameters(), lr=0.1), loss=cross_entropy, policy=policy, **options)


def by_block(
    update: truestep.Update[Batch], window: list[Batch], between: Callable[[], object] = lambda: None
) -> truestep.Outcome:
    with update.attempt(total=sum(len(data[0]) for data in window)) as attempt:
        for data in window:
            with attempt.autocast():
                loss = cross_entropy(update.model, data)
            between()
            attempt.backward(loss, len(data[0]))
    return attempt.outcome


@pytest.mark.parametrize("run", [lambda update, window: update(window), by_block], ids=["call", "block"])
@pytest.mark.parametrize("window", [WINDOW, [batch(2), poisoned(batch(2))]], ids=["completed", "skipped"])
@pytest.mark.parametrize("policy", ["fp32", "bf16", "fp16", "bf16-master"])
def test_the_stages_add_up_to_the_attempts_seconds(policy: str, window: list[Batch], run: Any) -> None:
    model = mlp()
    update = truestep.Update(
        model, lambda params: torch.optim.SGD(params, lr=0.1), loss=cross_entropy, policy=policy, time_stages=True
    )
    for _ in range(3):
        outcome = run(update, window)
        spent = outcome.seconds_by_stage
        assert list(spent) == [stage for stage in STAGES if stage in spent], "in their order"
        assert min(spent.values()) >= 0
        # the rest is seconds - fsum(the others), which rounds twice, and the sum of all rounds once
        assert abs(math.fsum(spent.values()) - outcome.seconds) <= 3 * 2.0**-53 * outcome.seconds
        assert ("apply" in spent, "explain" in spent, "block" in spent) == (
            outcome.completed,
            not outcome.completed,
            run is by_block,
        )


class Clock:
    """Stands still but for what is slept."""

    now = 4096.0

    def perf_counter(self) -> float:
        return self.now

    def sleeping(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """`real`, which takes a second now."""

        def slept(*args: Any, **named: Any) -> Any:
            self.now += 1.0
            return real(*args, **named)

        return slept


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The engine's clock."""
    stopped = Clock()
    monkeypatch.setattr(stages, "time", stopped)
    monkeypatch.setattr(work, "time", stopped)
    return stopped


@pytest.mark.parametrize(
    ("owner", "name", "stage", "times", "window"),
    [
        (Buffers, "keep", "zero", 1, WINDOW),
        (nn.Linear, "forward", "forward", 4, WINDOW),
        (torch.autograd, "backward", "backward", 2, WINDOW),
        (work, "judge", "judge", 1, WINDOW),
        (truestep.ClipNorm, "__call__", "apply", 1, WINDOW),
        (torch.optim.SGD, "step", "apply", 1, WINDOW),
        (work, "diagnose", "explain", 1, [poisoned(batch(2))]),
        (Schedule, "tick", "schedule", 1, WINDOW),
        (Schedule, "tick", "schedule", 1, [poisoned(batch(2))]),
        (truestep.LossScale, "after", "schedule", 1, WINDOW),
        (work.Recording, "loss", "bookkeeping", 1, WINDOW),
    ],
)
def test_what_takes_a_second_shows_in_its_stage_and_in_no_other(
    owner: Any, name: str, stage: str, times: int, window: list[Batch], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = an_update()
    monkeypatch.setattr(owner, name, clock.sleeping(getattr(owner, name)))
    outcome = update(window)
    expected = dict.fromkeys(outcome.seconds_by_stage, 0.0) | {stage: float(times)}
    assert (outcome.seconds_by_stage, outcome.seconds) == (expected, float(times))


def test_a_real_sleep_shows_in_its_stage() -> None:
    def slow(model: nn.Module, data: Batch) -> torch.Tensor:
        time.sleep(0.01)
        return cross_entropy(model, data)

    model = mlp()
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=slow, time_stages=True)
    assert update(WINDOW).seconds_by_stage["forward"] >= 2 * 0.01


def test_what_a_block_does_between_forward_and_backward_is_the_blocks(clock: Clock) -> None:
    outcome = by_block(an_update(), WINDOW, between=clock.sleeping(lambda: None))
    assert outcome.seconds_by_stage["block"] == outcome.seconds == 2.0


def test_a_backward_inside_autocast_ends_the_forward_for_a_while_only(clock: Clock) -> None:
    update = an_update()
    with update.attempt(total=2) as attempt, attempt.autocast():
        attempt.backward(cross_entropy(update.model, batch(2)), 2)
        clock.now += 1.0
    assert attempt.outcome.seconds_by_stage["forward"] == 1.0


def test_an_attempt_that_nobody_asked_to_time_is_made_of_the_plain_parts() -> None:
    update = an_update(time_stages=False)
    assert kinds_of(update.plan) == (work.Work, truestep.Attempt)
    assert update(WINDOW).seconds_by_stage is None


class Seen:
    """A watch that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def turn(self, stage: str) -> None:
        self.told.append(stage)

    def end(self, outcome: truestep.Outcome | None, seconds_by_stage: Mapping[str, float]) -> None:
        self.told.append((outcome, dict(seconds_by_stage)))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Seen]]:
    """A watch for each attempt of this thread."""
    watches: list[Seen] = []

    def watcher(plan: Any) -> Seen:
        watches.append(Seen())
        return watches[-1]

    monkeypatch.setattr(watching, "watcher", watcher)
    return watches


def test_a_watch_is_told_every_stage_and_the_outcome_which_itself_says_nothing_unasked(seen: list[Seen]) -> None:
    outcome = an_update(time_stages=False)(WINDOW)
    (watch,) = seen
    each = ["forward", "bookkeeping", "backward", "bookkeeping"]
    assert watch.told[:-1] == ["bookkeeping", *each, *each, "judge", "apply", "schedule", "bookkeeping"]
    assert watch.told[-1][0] is outcome
    assert math.isclose(math.fsum(watch.told[-1][1].values()), outcome.seconds)
    assert outcome.seconds_by_stage is None


def test_a_watch_hears_the_end_of_an_attempt_that_an_exception_ended(seen: list[Seen]) -> None:
    update = an_update()
    with pytest.raises(ZeroDivisionError), update.attempt():
        raise ZeroDivisionError
    with pytest.raises(truestep.errors.StateError, match="no backward"), update.attempt():
        pass
    assert [watch.told[-1][0] for watch in seen] == [None, None]


def test_a_watch_hears_the_end_of_an_attempt_that_could_not_begin(seen: list[Seen]) -> None:
    model = mlp()
    update = truestep.Update(model, torch.optim.LBFGS(model.parameters()), loss=cross_entropy)
    with pytest.raises(truestep.errors.OptimizerError), update.attempt():
        pass
    assert seen[0].told == [(None, {})]


def test_another_threads_attempts_are_not_watched(seen: list[Seen]) -> None:
    update = an_update(time_stages=False)
    other = threading.Thread(target=lambda: update(WINDOW))
    other.start()
    other.join()
    assert (update.counts.attempts, seen) == (1, [])


@pytest.mark.parametrize(
    ("policy", "optimizer", "window"),
    product(
        ["fp32", "bf16", "fp16"],
        [torch.optim.SGD, torch.optim.AdamW],
        [WINDOW, [batch(2), poisoned(batch(2))]],
        every=1,
    ),
)
def test_timing_changes_no_bit(policy: str, optimizer: Any, window: list[Batch], seen: list[Seen]) -> None:
    left, right = (an_update(policy, optimizer, time_stages=timed) for timed in (False, True))
    for seed in range(3):
        kept, watching.watcher = watching.watcher, None
        left([batch(4, seed)]), left(window)
        watching.watcher = kept
        right([batch(4, seed)]), right(window)
    assert same(weights(left.model), weights(right.model))
    assert same(optimizer_state(left.optimizers[0]), optimizer_state(right.optimizers[0]))
    assert (left.counts, left.scale) == (right.counts, right.scale)
