"""One try at an effective update: its backwards, and what its end has to work with."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

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
from truestep.engine.weights import Shares, weight_of
from truestep.errors import LossError, StateError, WeightError
from truestep.probe.buffers import Buffers


class Attempt:
    """What `with update.attempt() as attempt:` gives: `autocast`, `backward` and `grad` inside the block, `outcome` after it.

    Leaving the block decides the attempt. An exception in it leaves parameters, optimizer, scale, counts, schedule and buffers as
    they were, and gradients None.
    """

    def __init__(
        self,
        plan: Plan[Any],
        *,
        scale: LossScale,
        total: float | None,
        buffers: Buffers,
        guard: Guard,
        weight_check: WeightCheck,
    ) -> None:
        self._start = time.perf_counter()
        self._plan, self._buffers, self._guard, self._weight_check = plan, buffers, guard, weight_check
        self._open = True
        self._outcome: Outcome | None = None
        self.scale = scale
        self.shares = Shares(plan.loss_is, total)
        self.microbatches: list[Any] = []
        self.losses: list[tuple[int, float, Tensor]] = []
        self.examples: int | None = None
        self.tokens: int | None = None
        self.moved: bool | None = None
        self.can_run_again = False
        self.params = parameters_of(plan.optimizer)
        clear(self.params)
        buffers.keep()
        self._seal = Seal(self.params)
        self._random = RandomState.now(plan.device)

    @property
    def outcome(self) -> Outcome:
        """What the attempt did; StateError before the block has been left, and after one left by an exception."""
        if self._outcome is None:
            state = "still open" if self._open else "abandoned by an exception"
            raise StateError(f"this attempt has no outcome: it is {state}", hint="read it after the with block")
        return self._outcome

    @property
    def unit(self) -> float:
        """The one factor from the accumulated gradient to original units: 1 / (loss scale * what the mean still lacks)."""
        return 1.0 / (self.scale.value * self.shares.divisor())

    def autocast(self) -> AbstractContextManager[object]:
        """The context of one forward and its loss; backward belongs outside."""
        return self._plan.policy.autocast(self._plan.device)

    def backward(
        self,
        loss: Tensor,
        weight: float | Tensor | None = None,
        *,
        share: float | None = None,
        microbatch: Any = None,
        examples: int | None = None,
        tokens: int | None = None,
    ) -> None:
        """Add the gradient of `loss` at its share of the window, scaled.

        Args:
            loss: a scalar of the model's graph, in original units.
            weight: what `loss` is a mean over. A weight of 0 makes no backward, whatever the loss is.
            share: the factor of `loss` in the window's loss, instead of a weight.
            microbatch: what the loss came from: gives the weight where none is said, the counts, and the name of a non-finite
                input on a skip.
            examples, tokens: the counts, where there is no `microbatch`. Not told, they are not counted.

        Raises:
            StateError: outside the block. LossError: `loss` is no scalar with a graph. WeightError: no weight, or a wrong one.
        """
        self._demand_open()
        self._count(microbatch, examples, tokens)
        index = len(self.microbatches)
        self.microbatches.append(microbatch)
        factor = self._share(loss, weight, share, microbatch)
        if factor == 0.0:
            return
        self.losses.append((index, factor, loss.detach()))
        loss = loss if loss.dtype is torch.float32 else loss.float()  # in float16 the scale itself would overflow
        self._seal.demand()
        torch.autograd.backward(loss * (self.scale.value * factor), inputs=self.params)
        self._seal.renew()

    def grad(self, loss: Tensor, inputs: Sequence[Tensor] | Tensor) -> tuple[Tensor, ...]:
        """The gradients of `loss` by `inputs`, in original units and with a graph, for a penalty on them.

        Computed at this attempt's loss scale, so that they do not underflow: d(scale * loss)/d(inputs) / scale.
        """
        self._demand_open()
        _demand_scalar(loss)
        seed = torch.full_like(loss, self.scale.value, dtype=torch.float32)
        found = torch.autograd.grad(loss.float(), inputs, seed, create_graph=True)
        return tuple(g.float() * (1.0 / self.scale.value) for g in found)

    def judge(self) -> Verdict:
        """The verdict on the accumulated gradient; not finite where the total weight is 0 and there is none."""
        self._buffers.learn()
        if not self.losses:
            if self.shares.total == 0.0:
                return Verdict(finite=False, norm=None)
            raise StateError("the attempt made no backward", hint="call attempt.backward(loss, weight) for each microbatch")
        self._seal.demand()
        self.gradients = gradients_of(self.params)
        return judge(self.gradients, self.unit)

    def loss(self) -> float | None:
        """The window's loss: the losses by their shares. Waits for the device."""
        if not self.losses:
            return None
        terms = zip(self.losses, self._values(), strict=True)
        return sum(factor * value for (_, factor, _), value in terms) / self.shares.divisor()

    def step(self, factor: float) -> None:
        """Apply the update with the gradient times `factor`; note whether any parameter moved, where that is tracked."""
        before = [p.detach().clone() for p in self.params] if self._plan.track_moves else None
        with self._guard.opened():
            step(self._plan.optimizer, self.gradients, factor)
        if before is not None:
            self.moved = any(not torch.equal(old, new) for old, new in zip(before, self.params, strict=True))

    def explain(self, verdict: Verdict) -> Skip:
        """Why there is no update, by diagnosis; the random state afterwards is as it was before it."""
        if not self.losses:
            return Skip(reason=Reason.WEIGHT, place=None, detail="no microbatch of the window weighs anything", curable=False)
        plan, after = self._plan, RandomState.now(self._plan.device)
        evidence = Evidence(
            model=plan.model,
            params=self.params,
            names=names_of(plan.model, plan.optimizer),
            microbatches=self.microbatches,
            losses={index: value for (index, _, _), value in zip(self.losses, self._values(), strict=True)},
            scale=self.scale,
            replay=Replay(self._loss_again, self.microbatches, self._random) if self.can_run_again else None,
        )
        try:
            return diagnose(evidence, verdict)
        finally:
            after.restore()

    def undo(self) -> None:
        """No gradient, and every buffer as before."""
        clear(self.params)
        self._buffers.restore()

    def finish(self, outcome: Outcome) -> None:
        """The attempt is decided."""
        self._outcome = outcome

    def close(self) -> None:
        """The block has been left: nothing more can be added, and what was not decided is undone."""
        self._open = False
        self._weight_check.close()
        if self._outcome is None:
            self.undo()

    def seconds(self) -> float:
        """Wall time since the block was entered."""
        return time.perf_counter() - self._start

    def _values(self) -> list[float]:
        losses = [loss for _, _, loss in self.losses]
        if self._plan.device.type == "cpu":
            return [loss.item() for loss in losses]
        return torch.stack([loss.double().reshape(()) for loss in losses]).tolist()

    def _loss_again(self, microbatch: Any, in_float32: bool) -> Tensor:
        return self._plan.loss_under(POLICIES["fp32"] if in_float32 else self._plan.policy, microbatch)

    def _demand_open(self) -> None:
        if not self._open:
            raise StateError("this attempt is over", hint="call it inside `with update.attempt() as attempt:`")

    def _count(self, microbatch: Any, examples: int | None, tokens: int | None) -> None:
        if microbatch is not None:
            examples = self._plan.examples_of(microbatch) if examples is None else examples
            tokens = self._plan.tokens(microbatch) if tokens is None and self._plan.tokens else tokens
        if examples is not None:
            self.examples = (self.examples or 0) + int(examples)
        if tokens is not None:
            self.tokens = (self.tokens or 0) + int(tokens)

    def _share(self, loss: Tensor, weight: float | Tensor | None, share: float | None, microbatch: Any) -> float:
        if share is not None or self._plan.loss_is == "share":
            _demand_scalar(loss)
            return self.shares.given(1.0 if share is None else share)
        if weight is None and microbatch is None:
            raise WeightError("no weight was given", hint="write attempt.backward(loss, weight), or share= for its share")
        number = self._plan.weight_of(microbatch) if weight is None else weight_of(weight)
        factor = self.shares.share(number)
        if factor:
            _demand_scalar(loss)
            self._weight_check(loss, number)
        return factor


def _demand_scalar(loss: object) -> None:
    """LossError unless `loss` is a scalar tensor with a graph."""
    if not isinstance(loss, Tensor):
        raise LossError(f"the loss is a {type(loss).__name__}", hint="return a tensor with one element")
    if loss.numel() != 1:
        raise LossError(f"the loss has the shape {tuple(loss.shape)}", hint="reduce it to one element: mean or sum")
    if loss.grad_fn is None and not loss.requires_grad:
        raise LossError("the loss has no graph: nothing can be learned from it", hint="look for no_grad, detach or .item()")
