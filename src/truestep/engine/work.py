"""What one attempt accumulates, and the stages that its end is made of: judge, apply or undo, explain, report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from truestep.engine.clock import Clock
from truestep.engine.closure import closure_of
from truestep.engine.counts import Counts
from truestep.engine.diagnosis import Evidence, diagnose
from truestep.engine.gradients import Verdict, block_norm, judge
from truestep.engine.guard import Guard
from truestep.engine.host import to_host
from truestep.engine.outcome import Outcome, Reason, Skip
from truestep.engine.parameters import same_bits, trained
from truestep.engine.plan import Plan
from truestep.engine.randomness import own_random_state
from truestep.engine.reach import Reach
from truestep.engine.recording import Recording
from truestep.engine.scale import LossScale
from truestep.engine.seal import Seal
from truestep.engine.terms import Added, Summand, TermShares, losses_by_microbatch, losses_by_term
from truestep.engine.weight_check import WeightChecks
from truestep.engine.weights import Weight
from truestep.engine.windows import demand_count
from truestep.errors import ClockError, OptimizerError, StateError
from truestep.probe.buffers import Buffers
from truestep.probe.finiteness import all_finite


class Work:
    """The state of one attempt between zero and outcome. Making it zeroes gradients and sets buffers and random state aside.

    `decided` turns true once the update was applied or all was undone; what comes after that cannot be undone any more.
    """

    def __init__(
        self,
        plan: Plan[Any],
        scale: LossScale,
        total: Weight | None,
        *,
        buffers: Buffers,
        guard: Guard,
        reach: Reach,
        can_replay: bool,
    ) -> None:
        self._start = time.perf_counter()
        self.plan, self.scale, self._can_replay = plan, scale, can_replay
        self._buffers, self._guard, self._reach = buffers, guard, reach
        self._store = plan.store
        if plan.evaluates_again and not can_replay:
            raise OptimizerError(
                f"{type(plan.store.optimizers[0]).__name__} evaluates the loss again inside its step, and an attempt() block"
                " cannot be run again",
                hint="call update(window)",
            )
        self.shares = TermShares(plan.loss_is, total)
        self._rates = plan.learning_rates()
        self._rates_read: tuple[float, ...] = ()
        self.examples: int | None = None
        self.tokens: int | None = None
        self._gradients: list[Tensor] = []
        self._divisor = 1.0
        self._last: Tensor | None = None
        self._penalty_overflow: str | None = None
        """What `grad` found not finite at the loss scale, and finite at a smaller one."""
        self._norm: float | None = None
        self._clipped: float | None = None
        self._moved: bool | None = None
        self.open, self.decided = True, False
        self.outcome: Outcome | None = None
        self.lost = False
        """A backward that was begun has failed: no later one makes up for it."""
        self._params = plan.store.open()
        buffers.keep()
        self._seal = Seal(self._params)
        self._recording = Recording(plan)

    @property
    def unit(self) -> float:
        """The one factor from the accumulated gradient to original units: 1 / (loss scale * what the mean still lacks)."""
        return 1.0 / (self.scale.value * self._divisor)

    def add(self, summands: Sequence[Summand], microbatch: Any) -> None:
        """One microbatch: one backward of its loss, every term at its share and the loss scale; none where nothing weighs."""
        index, on_cpu = len(self._recording.microbatches), self.plan.device.type == "cpu"
        losses, added = [], []
        for term, loss, share, _ in summands:
            losses.append(loss)
            added.append(Added(index, term, share, loss.item() if on_cpu else loss.detach().clone()))
        if losses:
            self._reach.look(losses)
            self._seal.demand()
            self._store.backward(losses, [self.scale.value * one.share for one in added], trained(self._params))
            self._seal.renew()
            self._last = losses[-1]
        self._recording.add(microbatch, added)

    def grad(self, loss: Tensor, inputs: Sequence[Tensor] | Tensor) -> tuple[Tensor, ...]:
        """The gradients of `loss` by `inputs`, in original units; remembers an overflow that a smaller scale cures."""
        scale = self.scale
        found = torch.autograd.grad(loss.float() * scale.value, inputs, create_graph=True)
        if scale.kind != "none" and not all_finite(found):
            lowest = torch.autograd.grad(loss.float() * scale.lowest, inputs, retain_graph=True)
            if all_finite(lowest):
                self._penalty_overflow = (
                    f"attempt.grad overflows at a loss scale of {scale.value:g}, and is finite at {scale.lowest:g}"
                )
        return tuple(g.float() * (1.0 / scale.value) for g in found)

    def count(self, examples: int | None, tokens: int | None) -> None:
        """Add to what this window holds; None adds nothing and, alone, leaves a count untold."""
        if examples is not None:
            self.examples = (self.examples or 0) + demand_count("examples", examples)
        if tokens is not None:
            self.tokens = (self.tokens or 0) + demand_count("tokens", tokens)

    def judge(self, clock: Clock) -> Verdict:
        """Norm and finiteness of the accumulated gradient, unscaled; no norm where the total weight is 0 and there is none.

        Reads all that the outcome needs from the device before anything is applied.
        """
        self._buffers.learn()
        self._demand_counts(clock)
        if self.lost:
            raise StateError(
                "a backward of this attempt failed, and the block went on without it",
                hint="let the exception leave the block: the attempt is then undone",
            )
        if not self._recording.losses:
            if self.shares.weightless:
                self._rates_read = tuple(to_host(self._rates))
                return Verdict(norm=None)
            raise StateError("the attempt made no backward", hint="call attempt.backward(loss, weight) for each microbatch")
        self._seal.demand()
        self._seal.release()
        self._gradients = self._store.gradients()
        self._reach.judge(len(self._gradients), self._last)
        self._divisor = self.shares.divisor()
        return judge(self._gradients, self.unit, norm=self._read(block_norm(self._gradients)))

    def apply(self, norm: float, *, draw: int) -> None:
        """Clip a gradient of this norm in original units, and step: average, unscale and clip are one multiplication.

        `draw` numbers the update, for weights that are rounded by draws.
        """
        plan, self._norm = self.plan, norm
        factor, self._clipped = plan.clip(self._gradients, norm=norm, unit=self.unit)
        before = [p.detach().clone() for p in self._store.stepped] if plan.track_moves else None
        closing = closure_of(plan, self._recording, self._params, scale=self.scale.value, divisor=self._divisor)
        with self._guard.opened(), closing as closure:
            self._store.step(self._gradients, factor, draw=draw, closure=closure)
        self.decided = True
        if before is not None:
            self._moved = any(not same_bits(old, new) for old, new in zip(before, self._store.stepped, strict=True))

    def explain(self, verdict: Verdict) -> Skip:
        """Why there is no update, by diagnosis from the state that the window started from; random states are as before it."""
        if not self._recording.losses:
            return Skip(reason=Reason.WEIGHT, place=None, detail="no microbatch of the window weighs anything", curable=False)
        if self._penalty_overflow is not None:
            return Skip(reason=Reason.BACKWARD, place=None, detail=self._penalty_overflow, curable=self.scale.can_shrink)
        self._buffers.restore()
        losses, terms = losses_by_microbatch(self._recording.losses)
        evidence = Evidence(
            model=self.plan.model,
            params=trained(self._params),
            gradients=self._store.named_gradients(),
            microbatches=self._recording.microbatches,
            losses=losses,
            terms=terms,
            scale=self.scale,
            recording=self._recording if self._can_replay else None,
        )
        with own_random_state(self.plan.device):
            return diagnose(evidence, verdict)

    def undo(self) -> None:
        """No gradient, and every buffer as before."""
        self._store.clear()
        self._buffers.restore()
        self.decided = True

    def close(self) -> None:
        """The block has been left: nothing more can be added, and what was not decided is undone."""
        self.open = False
        if not self.decided:
            self.undo()
        self._gradients, self._last = [], None
        self._seal.release()
        self._recording.forget()

    def report(self, skip: Skip | None, counts: Counts, next_scale: LossScale, weight_check: WeightChecks) -> Outcome:
        """The outcome, once all has been decided."""
        loss = self._recording.loss()
        return Outcome(
            policy=self.plan.policy.name,
            skip=skip,
            loss=None if loss is None else loss / self._divisor,
            lr=self._rates_read,
            grad_norm=self._norm,
            grad_norm_clipped=self._clipped,
            loss_scale=self.scale.value,
            next_loss_scale=next_scale.value,
            weight=self.shares.total,
            weight_check=weight_check.text,
            microbatches=len(self._recording.microbatches),
            examples=self.examples,
            tokens=self.tokens,
            seconds=time.perf_counter() - self._start,
            counts=counts,
            parameters_moved=self._moved,
            losses=losses_by_term(self._recording.losses),
        )

    def _read(self, norm: Tensor) -> float:
        """The norm as a float and, with the same wait for the device, all else that lies there and is asked of it."""
        losses, question = self._recording.waiting(), self._store.asks()
        norm_read, *others = to_host([norm, *losses, *self._rates, *([] if question is None else [question])])
        if question is not None:
            self._store.told(others.pop())
        self._recording.read(others[: len(losses)])
        self._rates_read = tuple(others[len(losses) :])
        return norm_read

    def _demand_counts(self, clock: Clock) -> None:
        """ClockError where the schedule's clock counts what nobody told."""
        needed = clock.counts
        if needed is not None and getattr(self, needed) is None:
            raise ClockError(
                f"the clock counts {needed}, and this attempt was not told how many it held",
                hint=f"write attempt.backward(loss, weight, microbatch=...) or {needed}=...",
            )
