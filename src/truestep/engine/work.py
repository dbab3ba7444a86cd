"""What one attempt accumulates, and the stages that its end is made of: judge, apply or undo, explain, report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from truestep.engine.counts import Counts
from truestep.engine.diagnosis import Evidence, diagnose
from truestep.engine.gradients import Verdict, clear, gradients_of, judge
from truestep.engine.outcome import Outcome, Reason, Skip
from truestep.engine.plan import Plan
from truestep.engine.policy import POLICIES
from truestep.engine.replay import RandomState, Replay
from truestep.engine.scale import LossScale
from truestep.engine.seal import Guard, Seal
from truestep.engine.stepping import names_of, parameters_of, step
from truestep.engine.weight_check import WeightCheck
from truestep.engine.weights import Shares
from truestep.errors import ClockError, StateError
from truestep.probe.buffers import Buffers


class Work:
    """The state of one attempt between zero and outcome. Making it zeroes gradients and sets buffers and random state aside."""

    def __init__(
        self, plan: Plan[Any], scale: LossScale, total: float | None, *, buffers: Buffers, guard: Guard, can_replay: bool
    ) -> None:
        self._start = time.perf_counter()
        self.plan, self.scale, self._buffers, self._guard, self._can_replay = plan, scale, buffers, guard, can_replay
        self.shares = Shares(plan.loss_is, total)
        self.rates = plan.learning_rates()
        self.examples: int | None = None
        self.tokens: int | None = None
        self._microbatches: list[Any] = []
        self._losses: list[tuple[int, float, Tensor]] = []
        self._gradients: list[Tensor] = []
        self._norm: float | None = None
        self._clipped: float | None = None
        self._moved: bool | None = None
        self._params = parameters_of(plan.optimizer)
        clear(self._params)
        buffers.keep()
        self._seal = Seal(self._params)
        self._random = RandomState.now(plan.device)

    @property
    def unit(self) -> float:
        """The one factor from the accumulated gradient to original units: 1 / (loss scale * what the mean still lacks)."""
        return 1.0 / (self.scale.value * self.shares.divisor())

    def add(self, loss: Tensor, share: float, microbatch: Any) -> None:
        """One microbatch: the backward of its loss at its share and the loss scale; none where the share is 0."""
        index = len(self._microbatches)
        self._microbatches.append(microbatch)
        if share == 0.0:
            return
        self._losses.append((index, share, loss.detach()))
        if loss.dtype is not torch.float32:
            loss = loss.float()  # in float16 the scale itself would overflow
        self._seal.demand()
        torch.autograd.backward(loss * (self.scale.value * share), inputs=self._params)
        self._seal.renew()

    def count(self, examples: int | None, tokens: int | None) -> None:
        """Add to what this window holds; None adds nothing and, alone, leaves a count untold."""
        if examples is not None:
            self.examples = (self.examples or 0) + int(examples)
        if tokens is not None:
            self.tokens = (self.tokens or 0) + int(tokens)

    def judge(self) -> Verdict:
        """Norm and finiteness of the accumulated gradient, unscaled; no norm where the total weight is 0 and there is none."""
        self._buffers.learn()
        self._demand_counts()
        if not self._losses:
            if self.shares.total == 0.0:
                return Verdict(norm=None)
            raise StateError("the attempt made no backward", hint="call attempt.backward(loss, weight) for each microbatch")
        self._seal.demand()
        self._gradients = gradients_of(self._params)
        return judge(self._gradients, self.unit)

    def apply(self, norm: float) -> None:
        """Clip a gradient of this norm in original units, and step: average, unscale and clip are one multiplication."""
        plan, self._norm = self.plan, norm
        factor, self._clipped = plan.clip(self._gradients, norm=norm, unit=self.unit)
        before = [p.detach().clone() for p in self._params] if plan.track_moves else None
        with self._guard.opened():
            step(plan.optimizer, self._gradients, factor)
        if before is not None:
            self._moved = any(not torch.equal(old, new) for old, new in zip(before, self._params, strict=True))

    def explain(self, verdict: Verdict) -> Skip:
        """Why there is no update, by diagnosis; the random state afterwards is as it was before it."""
        if not self._losses:
            return Skip(reason=Reason.WEIGHT, place=None, detail="no microbatch of the window weighs anything", curable=False)
        plan, after = self.plan, RandomState.now(self.plan.device)
        evidence = Evidence(
            model=plan.model,
            params=self._params,
            names=names_of(plan.model, plan.optimizer),
            microbatches=self._microbatches,
            losses={index: value for (index, _, _), value in zip(self._losses, self._values(), strict=True)},
            scale=self.scale,
            replay=Replay(self._loss_again, self._microbatches, self._random) if self._can_replay else None,
        )
        try:
            return diagnose(evidence, verdict)
        finally:
            after.restore()

    def undo(self) -> None:
        """No gradient, and every buffer as before."""
        clear(self._params)
        self._buffers.restore()

    def report(self, skip: Skip | None, counts: Counts, next_scale: LossScale, weight_check: WeightCheck) -> Outcome:
        """The outcome, once all has been decided. Reads the losses, which waits for the device."""
        return Outcome(
            policy=self.plan.policy.name,
            skip=skip,
            loss=self._loss(),
            lr=self.rates,
            grad_norm=self._norm,
            grad_norm_clipped=self._clipped,
            loss_scale=self.scale.value,
            next_loss_scale=next_scale.value,
            weight=self.shares.total,
            weight_check=weight_check.text,
            microbatches=len(self._microbatches),
            examples=self.examples,
            tokens=self.tokens,
            seconds=time.perf_counter() - self._start,
            counts=counts,
            parameters_moved=self._moved,
        )

    def _loss(self) -> float | None:
        """The window's loss: the losses by their shares; None where no loss weighed anything."""
        if not self._losses:
            return None
        terms = zip(self._losses, self._values(), strict=True)
        return sum(share * value for (_, share, _), value in terms) / self.shares.divisor()

    def _values(self) -> Sequence[float]:
        losses = [loss for _, _, loss in self._losses]
        if self.plan.device.type == "cpu":
            return [loss.item() for loss in losses]
        return [float(value) for value in torch.stack([loss.double().reshape(()) for loss in losses]).tolist()]

    def _loss_again(self, microbatch: Any, in_float32: bool) -> Tensor:
        return self.plan.loss_under(POLICIES["fp32"] if in_float32 else self.plan.policy, microbatch)

    def _demand_counts(self) -> None:
        """ClockError where the schedule's clock counts what nobody told."""
        needed = self.plan.clock.counts
        if needed is not None and getattr(self, needed) is None:
            raise ClockError(
                f"the clock counts {needed}, and this attempt was not told how many it held",
                hint=f"write attempt.backward(loss, weight, microbatch=...) or {needed}=...",
            )
