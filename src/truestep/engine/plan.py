"""What an update was asked to be: declared once, checked once, and never changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

import torch
from torch import Tensor, nn

from truestep.engine.clip import Clip
from truestep.engine.policy import Policy
from truestep.engine.store import Store
from truestep.engine.terms import Loss
from truestep.engine.weights import LossIs, Weight, sum_of, weight_of
from truestep.engine.windows import demand_count, demand_window, examples_of
from truestep.errors import UsageError

M = TypeVar("M")
Incurable = Literal["keep", "backoff"]


class Measure(NamedTuple):
    """A microbatch in numbers; no weight where its loss comes as a share, no tokens where nobody counts them."""

    weight: Weight | None
    examples: int
    tokens: int | None


def total_of(measures: Sequence[Measure]) -> Weight | None:
    """The window's total weight, term by term; None for losses that come as shares, WeightError beyond float64."""
    weights = [measure.weight for measure in measures if measure.weight is not None]
    return sum_of(weights) if weights else None


@dataclass(frozen=True, kw_only=True)
class Plan(Generic[M]):
    """The parts of an update that stay as they are; their meaning stands in `Update`'s docstring."""

    model: nn.Module
    store: Store
    loss: Callable[[Any, M], Loss]
    loss_is: LossIs
    weight: Callable[[M], Any] | None
    examples: Callable[[M], int] | None
    tokens: Callable[[M], int] | None
    policy: Policy
    clip: Clip
    max_consecutive_skips: int | None
    incurable: Incurable
    track_moves: bool
    time_stages: bool
    evaluates_again: bool
    """The optimizer evaluates the loss again inside its step."""

    def __post_init__(self) -> None:
        """What is chosen from a few words is one of them, and what is called can be."""
        for name in ("loss", "weight", "examples", "tokens"):
            function = getattr(self, name)
            if not callable(function) and not (function is None and name != "loss"):
                raise UsageError(
                    f"{name}={function!r} cannot be called",
                    hint=f"{name} is a function of " + ("(model, microbatch)" if name == "loss" else "a microbatch"),
                )
        for name, words in (("loss_is", get_args(LossIs)), ("incurable", get_args(Incurable))):
            if getattr(self, name) not in words:
                raise UsageError(f"{name}={getattr(self, name)!r} means nothing", hint=f"choose one of: {', '.join(words)}")
        if self.max_consecutive_skips is not None and self.max_consecutive_skips < 1:
            raise UsageError(
                f"max_consecutive_skips={self.max_consecutive_skips} would end a run before its first attempt",
                hint="allow at least 1, or None for no limit",
            )

    @property
    def device(self) -> torch.device:
        """Where the parameters lie."""
        return self.store.device

    def weight_of(self, microbatch: M, examples: int | None = None) -> Weight:
        """The weight of a microbatch: what was declared, or its number of examples, which None reads off it."""
        if self.weight is not None:
            return weight_of(self.weight(microbatch))
        return self.examples_of(microbatch) if examples is None else examples

    def examples_of(self, microbatch: M) -> int:
        """The number of examples in a microbatch: by the declared function, or the first dimension of its first array."""
        return examples_of(microbatch) if self.examples is None else demand_count("examples", self.examples(microbatch))

    def tokens_of(self, microbatch: M) -> int | None:
        """The number of tokens in a microbatch, by the declared function; None where there is none."""
        return None if self.tokens is None else demand_count("tokens", self.tokens(microbatch))

    def measure(self, window: list[M]) -> list[Measure]:
        """What each microbatch of `window` weighs and counts, before any forward sees it."""
        demand_window(window)
        return [self._measured(microbatch) for microbatch in window]

    def _measured(self, microbatch: M) -> Measure:
        examples = self.examples_of(microbatch)
        weight = None if self.loss_is == "share" else self.weight_of(microbatch, examples)
        return Measure(weight, examples, self.tokens_of(microbatch))

    def loss_under(self, policy: Policy, microbatch: M) -> Loss:
        """The loss of `microbatch`, computed under the autocast of `policy`."""
        with policy.autocast(self.device):
            return self.loss(self.model, microbatch)

    def learning_rates(self) -> list[float | Tensor]:
        """The learning rate of each parameter group that has one, optimizer after optimizer; as a tensor where it is one."""
        groups = [group for optimizer in self.store.optimizers for group in optimizer.param_groups]
        rates = [group["lr"] for group in groups if group.get("lr") is not None]
        return [rate.detach().clone() if isinstance(rate, Tensor) else float(rate) for rate in rates]
