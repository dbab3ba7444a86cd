"""What an attempt remembers of its window, to run the forwards again: for a diagnosis, and for a step that evaluates the loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from truestep.engine.closures import Evaluations
from truestep.engine.gradients import multiply
from truestep.engine.plan import Plan
from truestep.engine.policy import POLICIES
from truestep.engine.randomness import TorchRandomState, own_random_state
from truestep.engine.replay import Replay
from truestep.engine.terms import Added, joined
from truestep.probe.buffers import Buffers
from truestep.probe.finiteness import all_finite


class Forwards:
    """The microbatches of an attempt, the losses that had a backward, and the state of torch's generators before the first."""

    def __init__(self, plan: Plan[Any]) -> None:
        self.plan = plan
        self.microbatches: list[Any] = []
        self.losses: list[Added] = []
        self._random = TorchRandomState.now(plan.device)

    def loss(self) -> float | None:
        """The losses by their shares, not yet divided; None where no loss weighed anything."""
        return sum(one.share * one.value for one in self.losses) if self.losses else None

    def replay(self) -> Replay:
        """The forwards, repeatable."""
        return Replay(self._loss_again, len(self.microbatches), self._random)

    @contextmanager
    def evaluating(self, params: Sequence[Parameter], *, scale: float, divisor: float) -> Iterator[Evaluations | None]:
        """The closure of an optimizer that evaluates the loss again inside its step; None for any other.

        Every evaluation draws from torch's generators what the window's forwards drew, not from Python's and NumPy's, and leaves
        all of them, and the buffers, as those forwards left them.
        """
        if not self.plan.evaluates_again:
            yield None
            return
        found, buffers, replay = self.loss(), Buffers(self.plan.model), self.replay()
        assert found is not None
        before = _versions(params)

        def again() -> tuple[float, bool]:
            self.plan.store.clear()
            buffers.keep()
            values = [self._add_again(index, loss, scale, params) for index, loss in enumerate(replay.losses())]
            buffers.restore()
            gradients = self.plan.store.gradients()
            multiply(gradients, 1.0 / (scale * divisor))
            return sum(values) / divisor, all_finite(gradients)

        with own_random_state(self.plan.device):
            yield Evaluations(found / divisor, again, has_moved=lambda: _versions(params) != before)

    def _add_again(self, index: int, loss: Tensor, scale: float, params: Sequence[Parameter]) -> float:
        """The backward of one microbatch once more; its loss by its share, 0 where it weighs nothing."""
        shares = self._shares_of(index)
        share = shares.get(None, 1.0 if shares else 0.0)  # terms come at their shares
        if not share:
            return 0.0
        torch.autograd.backward(loss.float() * (scale * share), inputs=trained(params))
        return share * loss.item()

    def _loss_again(self, index: int, in_float32: bool) -> Tensor:
        """The loss of a microbatch once more, as it is; of several terms the sum at their shares."""
        microbatch, shares = self.microbatches[index], self._shares_of(index)
        if not in_float32:
            return joined(self.plan.loss_under(self.plan.policy, microbatch), shares)
        with self.plan.store.in_float32():
            return joined(self.plan.loss_under(POLICIES["fp32"], microbatch), shares)

    def _shares_of(self, index: int) -> dict[str | None, float]:
        """The shares of what had a backward in a microbatch, by term."""
        return {one.term: one.share for one in self.losses if one.microbatch == index}


def trained(params: Sequence[Parameter]) -> list[Parameter]:
    """What a backward has to reach: a loss may freeze parameters while it runs."""
    return [p for p in params if p.requires_grad]


def _versions(params: Sequence[Parameter]) -> list[int]:
    return [p._version for p in params]
