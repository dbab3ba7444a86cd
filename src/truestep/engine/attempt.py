"""One try at an effective update, as a block: forwards and backwards inside, the decision at its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from truestep.engine.diagnosis import Evidence, diagnose
from truestep.engine.gradients import Verdict, clear, gradients_of, judge
from truestep.engine.outcome import Outcome, Reason, Skip
from truestep.engine.policy import Policy
from truestep.engine.replay import RandomState, Replay
from truestep.engine.stepping import names_of, parameters_of, step
from truestep.engine.weights import Shares, weight_of
from truestep.errors import LossError, StateError, WeightError

if TYPE_CHECKING:
    from truestep.engine.update import Update


class Attempt:
    """Made by `Update.attempt`; used once, in a `with` block.

    Leaving the block finishes the attempt and sets `outcome`; an exception inside leaves parameters, optimizer, scale, counts,
    schedule and buffers as they were, and gradients None.
    """

    def __init__(self, update: Update[Any], *, total: float | None, ends_epoch: bool, replayable: bool = False) -> None:
        self._update = update
        self.replayable = replayable
        self._state = "new"
        self._outcome: Outcome | None = None
        self.ends_epoch = ends_epoch
        self.shares = Shares(update.loss_is, total)
        self.scale = update.scale
        self.microbatches: list[Any] = []
        self.losses: list[tuple[int, float, Tensor]] = []
        self.examples: int | None = None
        self.tokens: int | None = None
        self.moved: bool | None = None

    @property
    def outcome(self) -> Outcome:
        """What the attempt did; StateError before the block has been left, and after one left by an exception."""
        if self._outcome is None:
            raise StateError(f"this attempt has no outcome: it is {self._state}", hint="read it after the with block")
        return self._outcome

    @property
    def unit(self) -> float:
        """The one factor from the accumulated gradient to original units: 1 / (loss scale * what the mean still lacks)."""
        return 1.0 / (self.scale.value * self.shares.divisor())

    def __enter__(self) -> Attempt:
        """Zero gradients, set buffers and random state aside, take the policy's arithmetic."""
        if self._state != "new":
            raise StateError(f"this attempt is {self._state}", hint="take a new one from update.attempt() for each window")
        self._update.opened(self)
        self._state = "open"
        self._start = time.perf_counter()
        self._arithmetic = self._update.policy.arithmetic()
        self._arithmetic.__enter__()
        self.params = parameters_of(self._update.optimizer)
        clear(self.params)
        self._update.buffers.keep()
        self._random = RandomState.now(self._update.device)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Finish, or undo everything where an exception is passing through."""
        try:
            if kind is None:
                self._outcome = self._update.conclude(self)
                self._state = "finished"
        finally:
            if self._state == "open":
                self._state = "abandoned by an exception"
                self.undo()
            self._arithmetic.__exit__(None, None, None)
            self._update.closed()
        if kind is None:
            self._update.demand_progress(self.outcome)

    def autocast(self) -> AbstractContextManager[object]:
        """The context of one forward and its loss; backward belongs outside."""
        return self._update.policy.autocast(self._update.device)

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
        torch.autograd.backward(loss * (self.scale.value * factor), inputs=self.params)

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
        if not self.losses:
            if self.shares.total == 0.0:
                return Verdict(finite=False, norm=None)
            raise StateError("the attempt made no backward", hint="call attempt.backward(loss, weight) for each microbatch")
        self.gradients = gradients_of(self.params)
        return judge(self.gradients, self.unit)

    def loss(self) -> float | None:
        """The window's loss: the losses by their shares. Waits for the device."""
        if not self.losses:
            return None
        values = self._values()
        return sum(factor * value for (_, factor, _), value in zip(self.losses, values, strict=True)) / self.shares.divisor()

    def step(self, factor: float) -> None:
        """Apply the update with the gradient times `factor`; note whether any parameter moved, where that is tracked."""
        before = [p.detach().clone() for p in self.params] if self._update.track_moves else None
        step(self._update.optimizer, self.gradients, factor)
        self._update.buffers.learn()
        if before is not None:
            self.moved = any(not torch.equal(old, new) for old, new in zip(before, self.params, strict=True))

    def explain(self, verdict: Verdict) -> Skip:
        """Why there is no update, by diagnosis; the random state afterwards is as it was before it."""
        if not self.losses:
            return Skip(reason=Reason.WEIGHT, place=None, detail="no microbatch of the window weighs anything", curable=False)
        update, after = self._update, RandomState.now(self._update.device)
        whole = None not in self.microbatches and self.replayable
        replay = Replay(self._forward, self.microbatches, self._random) if whole else None
        losses = {index: value for (index, _, _), value in zip(self.losses, self._values(), strict=True)}
        try:
            return diagnose(
                Evidence(
                    model=update.model,
                    params=self.params,
                    names=names_of(update.model, update.optimizer),
                    microbatches=self.microbatches,
                    losses=losses,
                    scale=self.scale,
                    replay=replay,
                ),
                verdict,
            )
        finally:
            after.restore()

    def undo(self) -> None:
        """No gradient, and every buffer as before."""
        clear(self.params)
        self._update.buffers.learn()
        self._update.buffers.restore()

    @property
    def seconds(self) -> float:
        """Wall time since the block was entered."""
        return time.perf_counter() - self._start

    def _values(self) -> list[float]:
        losses = [loss for _, _, loss in self.losses]
        if self._update.device.type == "cpu":
            return [loss.item() for loss in losses]
        return torch.stack([loss.double().reshape(()) for loss in losses]).tolist()

    def _forward(self, microbatch: Any, in_float32: bool) -> Tensor:
        policy = Policy.named("fp32") if in_float32 else self._update.policy
        with policy.autocast(self._update.device):
            return self._update.loss(self._update.model, microbatch)

    def _demand_open(self) -> None:
        if self._state != "open":
            raise StateError(f"this attempt is {self._state}", hint="call it inside `with update.attempt() as attempt:`")

    def _count(self, microbatch: Any, examples: int | None, tokens: int | None) -> None:
        if microbatch is not None:
            examples = self._update.examples_of(microbatch) if examples is None else examples
            tokens = self._update.tokens(microbatch) if tokens is None and self._update.tokens else tokens
        if examples is not None:
            self.examples = (self.examples or 0) + int(examples)
        if tokens is not None:
            self.tokens = (self.tokens or 0) + int(tokens)

    def _share(self, loss: Tensor, weight: float | Tensor | None, share: float | None, microbatch: Any) -> float:
        if share is not None or self._update.loss_is == "share":
            _demand_scalar(loss)
            return self.shares.given(1.0 if share is None else share)
        if weight is None and microbatch is None:
            raise WeightError("no weight was given", hint="write attempt.backward(loss, weight), or share= for its share")
        number = weight_of(lambda _: weight, None) if weight is not None else self._update.weight_of(microbatch)
        factor = self.shares.share(number)
        if factor:
            _demand_scalar(loss)
            self._update.weight_check(loss, number)
        return factor


def _demand_scalar(loss: object) -> None:
    """LossError unless `loss` is a scalar tensor with a graph."""
    if not isinstance(loss, Tensor):
        raise LossError(f"the loss is a {type(loss).__name__}", hint="return a tensor with one element")
    if loss.numel() != 1:
        raise LossError(f"the loss has the shape {tuple(loss.shape)}", hint="reduce it to one element: mean or sum")
    if loss.grad_fn is None and not loss.requires_grad:
        raise LossError("the loss has no graph: nothing can be learned from it", hint="look for no_grad, detach or .item()")
