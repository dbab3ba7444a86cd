"""One effective update: the page that the rest of the engine serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer

from truestep.engine.attempt import Attempt
from truestep.engine.building import Given, schedulers_of, store_of
from truestep.engine.clip import Clip, clip_of
from truestep.engine.clock import Every, Schedule, clock_of
from truestep.engine.counts import Counts
from truestep.engine.demands import demand_closures
from truestep.engine.guard import Guard
from truestep.engine.outcome import Outcome, Reason, Skip, demand_progress
from truestep.engine.plan import Incurable, Plan, total_of
from truestep.engine.policy import Policy, scale_of, uncached
from truestep.engine.reach import Reach
from truestep.engine.scale import LossScale
from truestep.engine.stages import kinds_of
from truestep.engine.state import read_grad_scaler, read_state, state_of
from truestep.engine.weight_check import WeightChecks
from truestep.engine.weights import LossIs, Weight, weight_of
from truestep.engine.work import Work
from truestep.probe.buffers import Buffers

M = TypeVar("M")


class Update(Generic[M]):
    """Makes effective updates of `model` by `optimizer`, one for each window it is called with.

    Gradient at the optimizer: clip(sum over the window of w_k * d(loss_k) / W), in original units, whatever the policy, the
    loss scale and the split into microbatches; W is the window's total weight. Each term of a loss has a w and a W of its own.

    The gradient alone decides: an attempt is skipped where an element of it is not finite, and completed where all are, even if
    the loss is not. A skip, or an exception, leaves parameters, optimizer, buffers and scheduler as they were and gradients None;
    it does not restore what a forward writes into parameters (Embedding's max_norm) or keeps outside of modules. A step that
    raises leaves all as before where it is an optimizer's first, and else an update that asks for a saved state. Backward
    reaches the optimizer's parameters only, so that GANs take one update for each optimizer.

    Args:
        model: float32 parameters on one device. A policy of narrow weights narrows what the optimizer holds of them, but for
            normalization layers and parametrizations; batch statistics that another model keeps are not put back on a skip.
        optimizer: any torch optimizer; a list of them, which step together or not at all; or a function to either from
            list(model.parameters()), or what stands for them, which policies of narrow weights need. One that evaluates the
            loss again inside its step (LBFGS) takes fp32 or bf16, no clip, and `update(window)`; what it finds not finite
            there is a GradientError.
        loss: from (model, microbatch) to a scalar, in original units, or to several by the names of their terms.
        loss_is: "mean" over its weight, "sum", or "share": the window's loss is the plain sum of the losses.
        weight: from a microbatch to what its loss is a mean over, of each term by its name. None counts examples. Held against
            the denominator read off the loss's graph on the first attempt; `check_weight=False` leaves that out.
        policy: "fp32", "tf32", "bf16", "fp16"; "bf16-master", "fp16-master", whose weights are narrow and follow float32
            masters; "bf16-pure", whose weights and moments are rounded stochastically; or a Policy.
        scale: a LossScale; None takes the policy's. `allow_underflow=True` permits float16 without one.
        clip: ClipNorm, ClipValue or None, in original units.
        scheduler, clock: one, a list, or a function from the optimizer (or the list of them) to either; stepped on "completed"
            attempts (default), any "attempt", the end of an "epoch", Every(examples=N) or Every(tokens=N) applied.
        examples, tokens: from a microbatch to its counts. None: the first dimension of its first array, and not counted.
        max_consecutive_skips: SkipLimitError after so many skipped attempts in a row, with the last one as `error.outcome`, which
            a ledger is yet to be given; None never.
        incurable: "keep" leaves the loss scale alone on a skip that no smaller scale can cure; "backoff" shrinks it on every
            non-finite gradient, as torch.amp.GradScaler does.
        track_moves, time_stages: give `outcome.moved()`, for a copy of the parameters a step, and `outcome.seconds_by_stage`.

    Raises:
        PolicyError, OptimizerError, ClockError: what was asked cannot be had here, by name.

    >>> import torch
    >>> model = nn.Linear(2, 1)
    >>> update = Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=lambda model, x: model(x).square().mean())
    >>> outcome = update([torch.ones(4, 2), torch.ones(2, 2)])
    >>> outcome.completed, outcome.counts.examples_applied
    (True, 6)
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Given,
        *,
        loss: Callable[[Any, M], Tensor | Mapping[str, Tensor]],
        loss_is: LossIs = "mean",
        weight: Callable[[M], Any] | None = None,
        policy: str | Policy = "fp32",
        scale: LossScale | None = None,
        clip: Clip | None = None,
        scheduler: Any = None,
        clock: str | Every = "completed",
        examples: Callable[[M], int] | None = None,
        tokens: Callable[[M], int] | None = None,
        check_weight: bool = True,
        allow_underflow: bool = False,
        max_consecutive_skips: int | None = None,
        incurable: Incurable = "keep",
        track_moves: bool = False,
        time_stages: bool = False,
    ) -> None:
        policy, clip = Policy.named(policy), clip_of(clip)
        store = store_of(policy, model, optimizer)
        self.scale = scale_of(policy.on(store.device), scale, allow_underflow=allow_underflow)
        self.plan: Plan[M] = Plan(
            model=model,
            store=store,
            loss=loss,
            loss_is=loss_is,
            weight=weight,
            examples=examples,
            tokens=tokens,
            policy=policy,
            clip=clip,
            max_consecutive_skips=max_consecutive_skips,
            incurable=incurable,
            track_moves=track_moves,
            time_stages=time_stages,
            evaluates_again=demand_closures(store.optimizers, policy=policy, scale=self.scale, clip=clip),
        )
        self.counts = Counts()
        self._weight_check = WeightChecks(loss_is, declared=weight is not None, wanted=check_weight)
        schedulers = schedulers_of(scheduler, store.optimizers)
        self._schedule = Schedule(schedulers, clock_of(clock, schedules=bool(schedulers), counts_tokens=tokens is not None))
        self._buffers, self._guard, self._reach = Buffers(model), Guard(store.optimizers), Reach()
        store.begin()

    def __call__(self, window: list[M]) -> Outcome:
        """Attempt one effective update from the microbatches of `window`, and return what happened."""
        measures = self.plan.measure(window)
        with self._attempt(total_of(measures), self._schedule.ends_epoch(window), can_replay=True) as attempt:  # zero
            autocast = attempt.autocast()
            for microbatch, (weight, examples, tokens) in zip(window, measures, strict=True):
                with autocast:
                    loss = self.plan.loss(self.plan.model, microbatch)
                # backward of loss * its share of the window * the loss scale
                attempt.backward(loss, weight, microbatch=microbatch, examples=examples, tokens=tokens)
        return attempt.outcome

    def _conclude(self, work: Work, *, ends_epoch: bool) -> Outcome:
        """The end of every attempt."""
        verdict = work.judge(self._schedule.clock)  # unscale once, by one factor; finite on every element?
        if verdict.norm is not None:
            skip = None
            work.apply(verdict.norm, draw=self.counts.completed)  # clip in original units, step
        else:
            skip = work.explain(verdict)
            work.undo()
        counts = self.counts.after(reason=None if skip is None else skip.reason, examples=work.examples, tokens=work.tokens)
        ticks = self._schedule.clock(self.counts, counts, ends_epoch=ends_epoch)
        self.counts, self.scale = counts, self._next_scale(skip)
        self._schedule.tick(ticks, has_stepped=skip is None)
        self.counts = counts.ticked(ticks)
        return work.report(skip, self.counts, self.scale, self._weight_check)

    def attempt(self, *, total: Weight | None = None, ends_epoch: bool = False) -> AbstractContextManager[Attempt]:
        """One attempt as a `with` block, for loops that are not one call. Leaving it decides; an exception in it undoes it.

        Args:
            total: the window's total weight. Known, each loss gets its share before backward. None takes weights relative to the
                first and divides once at the end; a ratio beyond 2^8 is then a WeightError. Terms need it, by their names.
            ends_epoch: the window is the last of its epoch.

        >>> import torch
        >>> model = nn.Linear(2, 1)
        >>> update = Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=lambda model, x: model(x).mean())
        >>> with update.attempt(total=6) as attempt:
        ...     for x in (torch.ones(4, 2), torch.ones(2, 2)):
        ...         with attempt.autocast():
        ...             loss = model(x).mean()
        ...         attempt.backward(loss, weight=len(x))
        >>> attempt.outcome.completed
        True
        """
        return self._attempt(None if total is None else weight_of(total), ends_epoch, can_replay=False)

    def state_dict(self) -> dict[str, Any]:
        """Loss scale and counts as plain values; model, optimizer and scheduler have state dicts of their own."""
        return state_of(self.scale, self.counts, seed=self.plan.policy.drawing_seed)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; torch.amp.GradScaler's is taken too, and leaves the counts alone.

        StateError for anything else, and inside an attempt; nothing has changed then.
        """
        self._guard.demand_no_attempt()
        if "_growth_tracker" in state:
            self.scale = read_grad_scaler(state, self.scale)
        else:
            self.scale, self.counts = read_state(state, self.scale, seed=self.plan.policy.drawing_seed)
        self._schedule.moved()
        self.plan.store.all_or_none.torn = None

    @property
    def model(self) -> nn.Module:
        """The model that is trained."""
        return self.plan.model

    @property
    def optimizers(self) -> tuple[Optimizer, ...]:
        """The optimizers, which step together."""
        return self.plan.store.optimizers

    @property
    def schedulers(self) -> tuple[Any, ...]:
        """The schedulers, which the clock moves together."""
        return self._schedule.schedulers

    def weights(self) -> dict[str, Tensor]:
        """The weights that the optimizers step, by name: float32, without a graph, masters where the policy keeps them."""
        return self.plan.store.weights()

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """Inside, the model's parameters are the float32 weights, to evaluate, save or load them; what is written there stays.

        Nothing changes for a policy whose weights are float32. StateError inside an attempt, and where weights were written
        outside that the masters do not know.
        """
        with self._guard.closed("the model holds its float32 weights"), uncached(), self.plan.store.in_float32():
            yield

    def take_weights(self) -> None:
        """Go on from the narrow weights as they stand, where somebody has written them: masters become what they are."""
        with self._guard.closed():
            self.plan.store.take_weights()

    @contextmanager
    def _attempt(self, total: Weight | None, ends_epoch: bool, *, can_replay: bool) -> Iterator[Attempt]:
        """The life of an attempt: what is undone unless it was decided, and what may not happen meanwhile."""
        with self._guard.closed(), self.plan.policy.arithmetic(self.plan.device):
            self._schedule.demand_untouched()
            work = (kinds := kinds_of(self.plan)).work(
                self.plan, self.scale, total, buffers=self._buffers, guard=self._guard, reach=self._reach, can_replay=can_replay
            )
            try:
                yield kinds.attempt(work, self._weight_check)
                work.outcome = self._conclude(work, ends_epoch=ends_epoch)
            finally:
                work.close()
                self._weight_check.close()
        demand_progress(work.outcome, self.plan.max_consecutive_skips)

    def _next_scale(self, skip: Skip | None) -> LossScale:
        """The scale moves after a completed attempt and after a skip that a smaller scale can cure."""
        if skip is None:
            return self.scale.after(finite=True)
        backs_off = skip.curable or (self.plan.incurable == "backoff" and skip.reason is not Reason.WEIGHT)
        return self.scale.after(finite=False) if backs_off else self.scale
