"""An attempt that is over keeps nothing of its window alive: no batch, no activation, no loss, and none of their gradients."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import Batch, batch, cross_entropy, mlp, poisoned


class Passing(torch.autograd.Function):
    """Gives on what it is given, and has both watched."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, watched: list[weakref.ref[Tensor]], raising: bool) -> Tensor:
        ctx.watched, ctx.raising = watched, raising
        made = value.clone()
        watched += [weakref.ref(value), weakref.ref(made)]
        return made

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        ctx.watched.append(weakref.ref(gradient))
        if ctx.raising:
            raise ArithmeticError("of the user's own")
        return gradient, None, None


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    """What only the collector would free counts as kept: an accelerator's memory is full before it comes."""
    gc.disable()
    yield
    gc.enable()


def in_a_block(update: truestep.Update, window: list[Batch], kept: list[truestep.Attempt]) -> None:
    """One attempt, which is still there when it is over."""
    with update.attempt(total=update.plan.measure(window)[0].weight) as attempt:
        kept.append(attempt)
        with attempt.autocast():
            loss = update.plan.loss(update.model, window[0])
        attempt.backward(loss, microbatch=window[0])


@pytest.mark.parametrize("policy", ["fp32", "bf16", "bf16-master", "bf16-pure"])
@pytest.mark.parametrize("end", ["completed", "skipped", "raised"])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("block", [False, True])
def test_nothing_of_a_window_outlives_its_attempt(block: bool, several: bool, end: str, policy: str) -> None:
    watched: list[weakref.ref[Tensor]] = []
    kept: list[truestep.Attempt] = []

    def loss(model: nn.Module, data: Batch) -> Any:
        hidden = Passing.apply(model[1](model[0](data[0])), watched, end == "raised")
        alone = Passing.apply(nn.functional.cross_entropy(model[2](hidden).float(), data[1]), watched, False)
        return {"class": alone, "twice": alone * 2} if several else alone

    terms = {"weight": lambda data: {"class": len(data[0]), "twice": len(data[0])}} if several else {}
    update = truestep.Update(mlp(), torch.optim.AdamW, loss=loss, policy=policy, check_weight=False, **terms)
    for _ in range(2):
        window = [poisoned(batch(2)) if end == "skipped" else batch(2), batch(3)]
        watched += [weakref.ref(tensor) for data in window for tensor in data]
        with pytest.raises(ArithmeticError) if end == "raised" else nullcontext() as caught:
            in_a_block(update, window, kept) if block else update(window)
        if caught is not None:
            caught.value.__traceback__ = None
            del caught
        del window
    assert update.counts.completed == 2 * (end == "completed")
    assert update.counts.skipped == 2 * (end == "skipped")
    assert len(watched) >= 18
    assert [tuple(alive.shape) for one in watched if (alive := one()) is not None] == []


@pytest.mark.parametrize("policy", ["fp32", "bf16-master"])
def test_nor_do_the_gradients_of_one_that_was_abandoned(policy: str) -> None:
    update = truestep.Update(mlp(), torch.optim.AdamW, loss=cross_entropy, policy=policy)
    with pytest.raises(ArithmeticError) as caught, update.attempt(total=2) as attempt:
        with attempt.autocast():
            loss = update.plan.loss(update.model, batch(2))
        attempt.backward(loss, 2)
        watched = [weakref.ref(p.grad) for p in update.model.parameters()]
        raise ArithmeticError("of the user's own")
    caught.value.__traceback__ = None
    assert [one() for one in watched] == [None] * 4
