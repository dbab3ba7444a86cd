"""One inspection under way: a window runs in float32 and under the policy, from the same state, and both are counted."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, get_args

import torch
from torch import Tensor
from torch.nn import Parameter

from truestep.engine.outcome import Outcome
from truestep.engine.randomness import random_state, set_random_state
from truestep.engine.update import Update
from truestep.errors import SkipLimitError, UsageError
from truestep.inspection.advice import advise
from truestep.inspection.capture import Capture, Watched
from truestep.inspection.movement import Moving
from truestep.inspection.notes import assumed, particular
from truestep.inspection.numbers import Kind
from truestep.inspection.reference import float32_gradients, operations_of
from truestep.inspection.result import Inspected, Inspection, Operation
from truestep.inspection.rows import Row, named_dtype, together
from truestep.probe import operations as probe
from truestep.probe.buffers import Buffers


class Inspecting:
    """One inspection under way."""

    def __init__(self, update: Update[Any], attempts: int, after: int) -> None:
        self._update, self._plan = update, update.plan
        self._places = [round(index * after / max(attempts - 1, 1)) for index in range(attempts)] if attempts > 1 else [after]
        self._low = self._plan.policy.low
        self._wide = torch.finfo(self._plan.policy.compute).tiny == torch.finfo(torch.float32).tiny
        """Whether what the policy computes in has float32's range, so that its own numbers are counted."""
        self._compute = named_dtype(self._plan.policy.compute)
        self._ends = (self._places[0], self._places[-1])
        """Where weights are counted, and where the policy's own numbers are held against float32 if they cannot stand for it."""
        self._capture, self._moving = Capture(self._plan.store, self._plan.policy.compute), Moving()
        self._inspected: list[Inspected] = []
        self._operations: dict[probe.Operation, int] = {}
        self._microbatches = 0

    def run(self, windows: Iterator[Sequence[Any]], *, task: str | None, seed: int | None) -> Inspection:
        """Train and inspect, and say what was found."""
        with _eager(self._plan.model) as compiled:
            for index, window in enumerate(islice(windows, self._places[-1] + 1)):
                if index in self._places:
                    self._inspect(list(window), window, index)
                else:
                    self._attempt(window)
        return self._result(task, seed, compiled=compiled)

    def _attempt(self, window: Any) -> Outcome:
        try:
            return self._update(window)
        except SkipLimitError as error:
            outcome: Outcome = error.outcome
            return outcome

    def _inspect(self, window: list[Any], given: Sequence[Any], index: int) -> None:
        """One attempt: in float32 where it has to be, under the policy as it is, and, of the first, its operators."""
        update, capture = self._update, self._capture
        exponent = _exponent(update.scale.value)
        drawn, buffers = random_state(), Buffers(self._plan.model)
        buffers.keep()
        trained = self._trained()
        with capture.hooks(trained):
            try:
                if not self._inspected:
                    self._operations, self._microbatches = operations_of(update, window, trained), len(window)
                    _back(buffers, drawn)
                if index in self._ends if not self._wide else self._low and not self._inspected:
                    self._expect(window, trained, exponent)
                    _back(buffers, drawn)
                self._run(window, given, index, exponent)
            finally:
                capture.close()

    def _expect(self, window: list[Any], trained: dict[str, Parameter], exponent: int) -> None:
        """The window in float32: counted where the policy's own numbers could not be, for what it flushed is not among them.

        Where they can be, its first microbatch, to be compared with.
        """
        capture, first = self._capture, not self._inspected

        def expect(row: Row, source: Hashable, tensor: Tensor) -> None:
            if not self._wide:
                row.count(tensor, exponent, scaled=False, blocks=first)
            row.expect(source, tensor)

        capture.take, capture.in_float32 = expect, True
        sums = float32_gradients(self._update, window, trained, count=1 if self._wide else len(window))
        capture.take = None
        if self._wide:
            return
        for name, each in sums.items():
            expect(capture.parameter_row(trained[name], "gradients at the optimizer"), id(trained[name]), each)

    def _weigh(self, *, compared: bool) -> None:
        """The weights in float32, and, where they are `compared`, in the policy's format."""
        capture, compute, first = self._capture, self._plan.policy.compute, not self._inspected

        def count(row: Row, source: Hashable, tensor: Tensor) -> None:
            row.count(tensor, 0, scaled=False, blocks=first)
            if compared:
                row.expect(source, tensor)

        with self._update.in_float32():
            capture.weights(count)
        if compared:
            capture.weights(lambda row, source, each: row.compare(source, each.detach().to(compute), 0))

    def _run(self, window: list[Any], given: Sequence[Any], index: int, exponent: int) -> None:
        update, capture, first = self._update, self._capture, not self._inspected
        scale, before = update.scale.value, {name: each.clone() for name, each in update.weights().items()}
        beside = not self._wide and index in self._ends
        compared = self._low and (first or beside)
        if index in self._ends:
            self._weigh(compared=compared)
        capture.stepped.clear()

        def take(row: Row, source: Hashable, tensor: Tensor) -> None:
            if self._wide:
                row.count(tensor, exponent, scaled=True, blocks=first)
            elif not beside:
                row.count_between(tensor, exponent)
            if compared:
                row.compare(source, tensor, exponent)

        capture.step = take

        def begin(place: int) -> None:
            nonlocal compared
            compared = beside or (self._wide and self._low and first and place == 0)
            capture.take, capture.in_float32 = take, False

        def end() -> None:
            nonlocal compared
            capture.take, compared = None, beside

        watched = Watched(window, begin, end)
        watched.ends_epoch = bool(getattr(given, "ends_epoch", False))
        outcome = self._attempt(watched)
        reason = None if outcome.skip is None else str(outcome.skip.reason.value)
        self._inspected.append(Inspected(after=index, scale=scale, completed=outcome.completed, reason=reason))
        if outcome.completed:
            self._moving.add(before, update.weights(), capture.stepped)

    def _trained(self) -> dict[str, Parameter]:
        """The model's own parameters that a backward reaches, by name."""
        stepped = self._update.weights()
        return {name: each for name, each in self._plan.model.named_parameters() if name in stepped and each.requires_grad}

    def _result(self, task: str | None, seed: int | None, *, compiled: bool) -> Inspection:
        policy, order = self._plan.policy, list(get_args(Kind))
        layers = list(dict.fromkeys(name for name, _ in self._plan.model.named_modules()))
        rows = sorted(self._capture.rows.values(), key=lambda row: (layers.index(row.layer), order.index(row.kind)))
        numbers = [row.numbers(self._compute) for row in rows]
        by_kind = {kind: [each for each in numbers if each.kind == kind] for kind in order}
        whole = [together(each, kind, self._compute) for kind, each in by_kind.items() if each]
        homes = {name: self._capture.layer_of(each) for name, each in self._plan.model.named_parameters()}
        movements = self._moving.movements(homes)
        silent = [name for name in self._capture.names if name not in {layer for layer, _ in self._capture.rows}]
        seen = particular(numbers, self._inspected, silent=silent, compiled=compiled)
        return Inspection(
            task=task,
            policy=policy.name,
            format=self._compute,
            device=str(self._plan.device),
            seed=seed,
            microbatches=self._microbatches,
            attempts=tuple(self._inspected),
            numbers=tuple(numbers),
            whole=tuple(whole),
            movements=movements,
            operations=tuple(_operation(each, calls) for each, calls in self._operations.items()),
            advice=advise(numbers, whole, movements),
            notes=(*assumed(wide=self._wide, low=self._low), *self._capture.shared, *seen),
        )


def _exponent(scale: float) -> int:
    """The exponent of a loss scale; UsageError where it is no power of two."""
    mantissa, exponent = math.frexp(scale)
    if mantissa != 0.5:
        raise UsageError(
            f"a loss scale of {scale} is no power of two",
            hint="scaling by a power of two is exact: inspect with one",
            scale=scale,
        )
    return exponent - 1


def _back(buffers: Buffers, drawn: dict[str, Any]) -> None:
    buffers.restore()
    set_random_state(drawn)


def _operation(found: probe.Operation, calls: int) -> Operation:
    return Operation(
        layer=found.layer,
        name=found.name,
        phase=found.phase,
        dtype=named_dtype(found.inputs[0]),
        result=None if found.result is None else named_dtype(found.result),
        cast=tuple(map(named_dtype, found.cast)),
        calls=calls,
    )


@contextmanager
def _eager(model: torch.nn.Module) -> Iterator[bool]:
    """Inside, compiled code runs uncompiled, so that its layers can be seen; whether there is any."""
    compiled = any(
        type(each).__name__ == "OptimizedModule" or getattr(each, "_compiled_call_impl", None) is not None
        for each in model.modules()
    )
    if not compiled:
        yield False
        return
    with torch.compiler.set_stance("force_eager"):
        yield True
