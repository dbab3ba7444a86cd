"""What an update was asked to be: declared once, checked once, and never changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from truestep.engine.clip import Clip
from truestep.engine.clock import Clock
from truestep.engine.policy import Policy
from truestep.engine.weights import LossIs, weight_of
from truestep.engine.windows import demand_window, examples_of
from truestep.errors import UsageError

M = TypeVar("M")
Incurable = Literal["keep", "backoff"]


@dataclass(frozen=True, kw_only=True)
class Plan(Generic[M]):
    """The parts of an update that stay as they are; their meaning stands in `Update`'s docstring."""

    model: nn.Module
    optimizer: Optimizer
    device: torch.device
    loss: Callable[[Any, M], Tensor]
    loss_is: LossIs
    weight: Callable[[M], Any] | None
    examples: Callable[[M], int] | None
    tokens: Callable[[M], int] | None
    policy: Policy
    clip: Clip
    scheduler: Any
    clock: Clock
    max_consecutive_skips: int | None
    incurable: Incurable
    track_moves: bool

    def __post_init__(self) -> None:
        """What is chosen from a few words is one of them."""
        for name, words in (("loss_is", get_args(LossIs)), ("incurable", get_args(Incurable))):
            if getattr(self, name) not in words:
                raise UsageError(f"{name}={getattr(self, name)!r} means nothing", hint=f"choose one of: {', '.join(words)}")
        if self.max_consecutive_skips is not None and self.max_consecutive_skips < 1:
            raise UsageError(
                f"max_consecutive_skips={self.max_consecutive_skips} would end a run before its first attempt",
                hint="allow at least 1, or None for no limit",
            )

    def weight_of(self, microbatch: M) -> float:
        """The weight of a microbatch: what was declared, or its number of examples."""
        return float(self.examples_of(microbatch)) if self.weight is None else weight_of(self.weight(microbatch))

    def examples_of(self, microbatch: M) -> int:
        """The number of examples in a microbatch: by the declared function, or the first dimension of its first array."""
        return examples_of(microbatch) if self.examples is None else self.examples(microbatch)

    def weigh(self, window: list[M]) -> tuple[Sequence[float | None], float | None]:
        """The weight of each microbatch and their sum; None for losses that come as shares."""
        demand_window(window)
        if self.loss_is == "share":
            return [None] * len(window), None
        weights = [self.weight_of(microbatch) for microbatch in window]
        return weights, math.fsum(weights)

    def loss_under(self, policy: Policy, microbatch: M) -> Tensor:
        """The loss of `microbatch`, computed under the autocast of `policy`."""
        with policy.autocast(self.device):
            return self.loss(self.model, microbatch)

    def learning_rates(self) -> tuple[float, ...]:
        """The learning rate of each parameter group, as it stands."""
        return tuple(float(group["lr"]) for group in self.optimizer.param_groups)
