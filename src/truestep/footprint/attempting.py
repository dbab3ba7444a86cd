"""Makes one attempt of an update in phases, under a watch of its storages and of the device's allocator."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from truestep.engine.outcome import Outcome
from truestep.engine.plan import Measure, total_of
from truestep.engine.update import Update
from truestep.footprint.allocator import Allocator
from truestep.footprint.log import Attempted, Phase
from truestep.footprint.watching import Watch
from truestep.footprint.workspaces import Workspaces
from truestep.probe.tree import leaves


def attempted(
    update: Update[Any],
    window: Sequence[Any],
    measures: Sequence[Measure],
    *,
    allocator: Allocator | None = None,
    workspaces: Workspaces | None = None,
) -> tuple[Outcome, Attempted]:
    """The outcome of an attempt, and its memory. `measures` were read off the window where it has content.

    A real one has an allocator to tell what lies inside of kernels, a fake one `workspaces`.

    It is `update(window)` in the words of a loop of one's own, for between its words lie the phases.
    """
    if allocator is not None:
        gc.collect()  # it would tell the end of graphs of earlier attempts that hang in circles; a watch knows its own alone
    watch = Watch(update.plan.device, workspaces)
    _tell(watch, update, window)

    def turn(phase: Phase) -> None:
        watch.phase = phase
        if allocator is not None:
            allocator.turn(phase)

    with ExitStack() as stack:
        stack.enter_context(_at_step(update, lambda: turn("step"), watch))
        if allocator is not None:
            stack.enter_context(allocator)
        stack.enter_context(watch)
        if update.plan.device.type == "cpu":
            watch.hold(torch.get_rng_state().nbytes, "temporaries")  # each attempt keeps it, and no operation shows it
        with update.attempt(total=total_of(measures)) as attempt:
            for index, (microbatch, (weight, examples, tokens)) in enumerate(zip(window, measures, strict=True)):
                watch.microbatch = index
                turn("forward")
                with attempt.autocast(), torch.autograd.graph.saved_tensors_hooks(watch.save, _unchanged):
                    loss = update.plan.loss(update.model, microbatch)
                turn("backward")
                attempt.backward(loss, weight, microbatch=microbatch, examples=examples, tokens=tokens)
                watch.know(_gradients(update), "gradients")
            turn("finite check")
    watch.know(_state(update), "moments")
    found = watch.account()
    if allocator is None:
        return attempt.outcome, Attempted(account=found, allocated_bytes=None, allocated_phase=None)
    phase, highest = max(allocator.phases.items(), key=lambda each: each[1])
    return attempt.outcome, Attempted(account=found, allocated_bytes=found.start_bytes + highest, allocated_phase=phase)


def _tell(watch: Watch, update: Update[Any], window: Sequence[Any]) -> None:
    """What is there at the start, and what it is for."""
    own = {id(p) for p in update.model.parameters()}
    watch.know(update.model.parameters(), "weights")
    watch.know(update.model.buffers(), "buffers")
    watch.know([p for p in update.plan.store.stepped if id(p) not in own], "masters")
    watch.know(_state(update), "moments")
    watch.know(_gradients(update), "gradients")
    watch.know([leaf for _, leaf in leaves(window) if isinstance(leaf, Tensor)], "batch")
    watch.start()


def _gradients(update: Update[Any]) -> list[Tensor]:
    return [p.grad for p in update.model.parameters() if p.grad is not None]


def _state(update: Update[Any]) -> list[Tensor]:
    states = [list(optimizer.state.values()) for optimizer in update.optimizers]
    return [leaf for _, leaf in leaves(states) if isinstance(leaf, Tensor)]


@contextmanager
def _at_step(update: Update[Any], then: Callable[[], None], watch: Watch) -> Iterator[None]:
    """Before each optimizer's step, or a portion's: the float32 gradients lie in the store, for narrow weights beside them."""
    store = update.plan.store

    def before(*_: Any) -> None:
        watch.know([found for p in store.stepped if (found := store.gradient_of(p)) is not None], "accumulators")
        then()

    handles = [optimizer.register_step_pre_hook(before) for optimizer in store.optimizers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _unchanged(tensor: Tensor) -> Tensor:
    return tensor
