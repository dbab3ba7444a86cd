"""An attempt's window as it was run, and the replay of it: the same forwards again, under the random state that they had."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from torch import Tensor

from truestep.engine.plan import Plan
from truestep.engine.policy import POLICIES
from truestep.engine.randomness import TorchRandomState
from truestep.engine.terms import Added, joined


class Recording:
    """The microbatches of a window, the losses that had a backward, and the state of torch's generators before the first forward.

    Both lists are written here alone, and read by whoever has the recording.
    """

    def __init__(self, plan: Plan[Any]) -> None:
        self._plan = plan
        self._random = TorchRandomState.now(plan.device)
        self.microbatches: list[Any] = []
        self.losses: list[Added] = []

    def add(self, microbatch: Any, losses: Iterable[Added]) -> None:
        """A microbatch has been added, and of its losses these by a backward, if any."""
        self.microbatches.append(microbatch)
        self.losses.extend(losses)

    def waiting(self) -> list[Tensor]:
        """The losses whose values lie on a device yet: all of them or none."""
        return [one.value for one in self.losses if isinstance(one.value, Tensor)]

    def read(self, values: Sequence[float]) -> None:
        """Those that waited, in their order, now as floats."""
        if values:
            self.losses = [one._replace(value=value) for one, value in zip(self.losses, values, strict=True)]

    def forget(self) -> None:
        """The attempt is over: whoever keeps it keeps no tensors. Nothing can be replayed any more."""
        self.microbatches, self.losses = [], []

    def loss(self) -> float | None:
        """The losses by their shares, not yet divided; None where no loss weighed anything."""
        return sum(one.share * one.value for one in self.losses) if self.losses else None

    def shares_of(self, index: int) -> dict[str | None, float]:
        """The shares of what had a backward in a microbatch, by term."""
        return {one.term: one.share for one in self.losses if one.microbatch == index}

    def replay(self, *, in_float32: bool = False) -> Generator[Tensor]:
        """The losses again in their order, each with its graph, of several terms the sum at their shares.

        Under the policy, or with everything in float32, the weights too until the next loss is asked for. A forward happens
        when its loss is asked for, and draws from torch's generators what it drew before.
        """
        self._random.restore()
        plan, policy = self._plan, POLICIES["fp32"] if in_float32 else self._plan.policy
        for index, microbatch in enumerate(self.microbatches):
            with plan.store.in_float32() if in_float32 else nullcontext():
                yield joined(plan.loss_under(policy, microbatch), self.shares_of(index))
