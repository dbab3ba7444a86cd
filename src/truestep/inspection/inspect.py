"""Inspects attempts of a short training: the same window in float32 and under the policy, from the same state."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice, repeat
from typing import Any, get_args

import torch
from torch import Tensor
from torch.nn import Parameter

from truestep.engine.outcome import Outcome
from truestep.engine.policy import Policy, scale_of
from truestep.engine.randomness import own_random_state, random_state, set_random_state
from truestep.engine.scale import LossScale
from truestep.engine.update import Update
from truestep.engine.windows import Window
from truestep.errors import SkipLimitError, UsageError
from truestep.inspection.advice import advise
from truestep.inspection.capture import Capture, Watched
from truestep.inspection.movement import Moving
from truestep.inspection.reference import float32_gradients, operations_of
from truestep.inspection.result import Inspected, Inspection, Kind, Operation
from truestep.inspection.rows import Row, named_dtype, together
from truestep.inspection.undo import undone
from truestep.probe import operations as probe
from truestep.probe.buffers import Buffers
from truestep.run.building import build, device_of, moved
from truestep.run.feed import Feed
from truestep.run.settings import Settings
from truestep.tasks import Task
from truestep.tasks.checking import demand_task
from truestep.tasks.loading import load

_ASSUMED = (
    "Predicted: the spread of a float32 run of the same windows from the same weights and random state, rounded to nearest by"
    " each format's own rules. It leaves out what low precision does to the numbers on their way.",
    "MX: blocks of 32 along the last dimension, scale 2^(floor(log2 amax) - emax); exact where that scale is 2^-127 or more."
    " Of the first inspected attempt alone.",
    "fp8 per tensor: the largest power of two at which the tensor's own largest number does not overflow.",
)


def inspect(
    what: Task | str | Update[Any],
    windows: Sequence[Sequence[Any]] | None = None,
    *,
    policy: str | Policy = "fp16",
    microbatches: int | None = None,
    attempts: int = 4,
    after: int = 8,
    seed: int = 0,
    device: str | None = None,
    scale: LossScale | None = None,
) -> Inspection:
    """Where the numbers of a model lie, by layer and kind, and what each number format would lose of them.

    A short training of `after` attempts and one more is made; `attempts` of them, spread evenly from the first to the last, are
    inspected: the window runs once in float32, which loses nothing, and once under the policy from the same state. All of it is
    undone afterwards.

    Args:
        what: a Task, the name of one, or FILE.py:NAME; or an Update of one's own, whose policy it then is.
        windows: for an Update, its windows, each a list of microbatches, used in turn and again from the first.
        policy, microbatches, seed, device: of a task; None takes the task's, or the machine's.
        attempts: how many to inspect; after: how many attempts come before the last of them, at least `attempts` - 1.
        scale: a loss scale in place of the policy's, a power of two. One that is too large shows what overflows.

    Raises:
        UsageError: what was asked cannot be inspected.

    >>> from truestep.tasks import Logistic
    >>> found = inspect(Logistic(), policy="bf16", attempts=2, after=3)
    >>> [each.after for each in found.attempts], found.all("weight gradients").in_use.lost
    ([0, 3], 0)
    """
    if attempts < 1 or after < attempts - 1:
        raise UsageError(
            f"{attempts} attempts are to be inspected, with {after} before the last of them",
            hint="inspect at least 1, and let after be at least attempts - 1",
            attempts=attempts,
            after=after,
        )
    if isinstance(what, Update):
        if not windows:
            raise UsageError("an update is inspected on windows, and there are none", hint="inspect(update, windows)")
        given = [window if isinstance(window, Window) else list(window) for window in windows]
        with undone(what):
            what.scale = what.scale if scale is None else scale_of(what.plan.policy, scale, allow_underflow=True)
            coming = chain.from_iterable(repeat(given))
            return _Inspecting(what, attempts, after).run(coming, task=None, seed=None)
    task = load(what) if isinstance(what, str) else what
    demand_task(task)
    if windows is not None:
        raise UsageError("a task brings its own windows", hint="leave windows out, or inspect an Update")
    place = device_of(device)
    with own_random_state(place):
        update, own = _built(task, policy, microbatches=microbatches, seed=seed, device=place, scale=scale)
        return _Inspecting(update, attempts, after).run(own, task=task.name, seed=seed)


def _built(
    task: Task, policy: str | Policy, *, microbatches: int | None, seed: int, device: torch.device, scale: LossScale | None
) -> tuple[Update[Any], Iterator[Window[Any]]]:
    """The update of a run, and its windows on its device."""
    name = Policy.named(policy).name
    settings = Settings(policy=name, microbatches=microbatches, scale=scale, allow_underflow=True)
    setup = build(task, settings, seed=seed, device=device)
    plan = setup.plan
    feed = Feed(task, setup.splits.train, batch=plan.batch, microbatches=plan.microbatches, seed=seed)

    def coming() -> Iterator[Window[Any]]:
        while True:
            window = feed.window()
            there: Window[Any] = Window(moved(microbatch, device) for microbatch in window)
            there.ends_epoch = window.ends_epoch
            yield there
            feed.move_on()

    return setup.update, coming()


class _Inspecting:
    """One inspection under way."""

    def __init__(self, update: Update[Any], attempts: int, after: int) -> None:
        self._update, self._plan = update, update.plan
        self._places = [round(index * after / max(attempts - 1, 1)) for index in range(attempts)] if attempts > 1 else [after]
        self._low = self._plan.policy.low
        self._compute = named_dtype(self._plan.policy.compute)
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
        """One attempt: in float32, under the policy as it is, and, of the first, its operators."""
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
                self._expect(window, trained, exponent)
                _back(buffers, drawn)
                self._run(window, given, index)
            finally:
                capture.close()

    def _expect(self, window: list[Any], trained: dict[str, Parameter], exponent: int) -> None:
        capture, first = self._capture, not self._inspected

        def expect(row: Row, source: Hashable, tensor: Tensor) -> None:
            row.expect(source, tensor, exponent, compared=self._low, blocks=first)

        with self._update.in_float32():
            capture.weights(expect)
        capture.take, capture.in_float32 = expect, True
        sums = float32_gradients(self._update, window, trained)
        capture.take = None
        for name, each in sums.items():
            expect(capture.parameter_row(trained[name], "gradients at the optimizer"), id(trained[name]), each)

    def _run(self, window: list[Any], given: Sequence[Any], index: int) -> None:
        update, capture = self._update, self._capture
        scale, before = update.scale.value, {name: each.clone() for name, each in update.weights().items()}
        if self._low:
            compute = self._plan.policy.compute
            capture.weights(lambda row, source, each: row.compare(source, each.detach().to(compute)))
        capture.stepped.clear()
        capture.step = Row.compare if self._low else _pass

        def begin() -> None:
            capture.take, capture.in_float32 = Row.compare if self._low else None, False

        def end() -> None:
            capture.take = None

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
            notes=(*_ASSUMED, *self._capture.shared, *self._notes(compiled)),
        )

    def _notes(self, compiled: bool) -> Iterator[str]:
        seen = {layer for layer, _ in self._capture.rows}
        silent = [name for name in self._capture.names if name not in seen]
        if silent:
            yield f"No number was seen of: {', '.join(silent)}."
        if compiled:
            yield "The model is compiled and ran uncompiled here: what its fused kernels keep in float32 is rounded here."
        skipped = [each for each in self._inspected if not each.completed]
        if skipped:
            yield (
                f"{len(skipped)} of {len(self._inspected)} inspected attempts were skipped ({skipped[0].reason} at a scale of"
                f" {skipped[0].scale:g}): their gradients at the optimizer and updates were not measured."
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


def _pass(row: Row, source: Hashable, tensor: Tensor) -> None:
    """Nothing is compared with float32 where all of it is float32."""


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
