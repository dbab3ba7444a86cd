"""One try at an effective update, as its user sees it inside a `with` block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor

from truestep.engine.outcome import Outcome
from truestep.engine.terms import Summand
from truestep.engine.weight_check import WeightChecks
from truestep.engine.weights import Naming, weight_of
from truestep.engine.work import Work
from truestep.errors import LossError, StateError, WeightError


class Attempt:
    """What `with update.attempt() as attempt:` gives: `autocast`, `backward` and `grad` inside the block, `outcome` after it.

    Leaving the block decides the attempt. An exception in it leaves parameters, optimizer, scale, counts, schedule and buffers as
    they were, and gradients None.
    """

    def __init__(self, work: Work, weight_check: WeightChecks) -> None:
        self._work, self._weight_check = work, weight_check
        self._autocasts = not work.plan.policy.low

    @property
    def outcome(self) -> Outcome:
        """What the attempt did; StateError before the block has been left, and after one left by an exception."""
        if self._work.outcome is not None:
            return self._work.outcome
        if self._work.open:
            raise StateError("this attempt has no outcome: it is still open", hint="read it after the with block")
        raise StateError(
            "this attempt has no outcome: it was abandoned by an exception", hint="update.counts says what was applied"
        )

    def autocast(self) -> AbstractContextManager[object]:
        """The context of one forward and its loss; backward belongs outside."""
        self._autocasts = True
        return self._work.plan.policy.autocast(self._work.plan.device)

    def backward(
        self,
        loss: Tensor | Mapping[str, Tensor],
        weight: float | Tensor | Mapping[str, float | Tensor] | None = None,
        *,
        share: float | None = None,
        microbatch: Any = None,
        examples: int | None = None,
        tokens: int | None = None,
    ) -> None:
        """Add the gradient of `loss` at its share of the window, scaled.

        Args:
            loss: a scalar of the model's graph, in original units, or several by the names of their terms.
            weight: what `loss` is a mean over, of each term by its name. A weight of 0 makes no backward, whatever the loss is.
            share: the factor of `loss` in the window's loss, instead of a weight; at 0 there is no backward either.
            microbatch: what the loss came from: gives the weight where none is said, the counts, and the name of a non-finite
                input on a skip.
            examples, tokens: the counts, where there is no `microbatch`. Not told, they are not counted.

        Raises:
            StateError: outside the block. LossError: `loss` is no scalar with a graph. WeightError: no weight, or a wrong one.
        """
        self._demand_open()
        work, plan = self._work, self._work.plan
        try:
            if microbatch is not None:
                examples = plan.examples_of(microbatch) if examples is None else examples
                tokens = plan.tokens_of(microbatch) if tokens is None else tokens
                if weight is None and share is None and plan.loss_is != "share":
                    weight = plan.weight_of(microbatch)
            work.count(examples, tokens)
            work.add(self._summands(loss, weight, share), microbatch)
        except BaseException:
            work.lost = True
            raise

    def grad(self, loss: Tensor, inputs: Sequence[Tensor] | Tensor) -> tuple[Tensor, ...]:
        """The gradients of `loss` by `inputs`, in original units and with a graph, for a penalty on them.

        Computed at this attempt's loss scale, so that they do not underflow: d(scale * loss)/d(inputs) / scale. Where they
        overflow at it and not at the smallest scale, the attempt's skip is a backward overflow, which lets the scale shrink.
        Under a loss scale it waits for the device, once for each input.
        """
        self._demand_open()
        demand_scalar(loss)
        return self._work.grad(loss, inputs)

    def _summands(self, loss: Any, weight: Any, share: float | None) -> list[Summand]:
        plan, shares = self._work.plan, self._work.shares
        if weight is not None and (share is not None or plan.loss_is == "share"):
            raise WeightError("a loss that comes as a share has no weight", hint="give one of the two, weight or share")
        if share is not None or plan.loss_is == "share":
            summands = shares.given(loss, 1.0 if share is None else share)
        elif weight is None:
            raise WeightError("no weight was given", hint="write attempt.backward(loss, weight), or share= for its share")
        else:
            summands = shares.summands(loss, weight_of(weight))
        for summand in summands:
            with Naming(summand.term):
                demand_scalar(summand.loss)
                self._weight_check(summand)
        return summands

    def _demand_open(self) -> None:
        if not self._work.open:
            raise StateError("this attempt is over", hint="call it inside `with update.attempt() as attempt:`")
        if not self._autocasts:
            raise StateError(
                f"policy {self._work.plan.policy.name}: the forward ran outside attempt.autocast()",
                hint="compute the loss inside `with attempt.autocast():`",
            )


def demand_scalar(loss: object) -> None:
    """LossError unless `loss` is a real scalar tensor with a graph."""
    if not isinstance(loss, Tensor):
        raise LossError(f"the loss is a {type(loss).__name__}", hint="return a tensor with one element")
    if loss.numel() != 1:
        raise LossError(f"the loss has the shape {tuple(loss.shape)}", hint="reduce it to one element: mean or sum")
    if not loss.is_floating_point():
        raise LossError(
            f"the loss is {str(loss.dtype).removeprefix('torch.')}", hint="return a real number: its real part or abs()"
        )
    if not loss.requires_grad:
        raise LossError("the loss has no graph: nothing can be learned from it", hint="look for no_grad, detach or .item()")
