"""An exponential moving average of the weights, which moves when an update was applied and at no other time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from truestep.engine.outcome import Outcome
from truestep.engine.update import Update
from truestep.errors import StateError, UsageError

SCHEMA = 1


class Ema:
    """A float32 shadow of the weights that an update steps: shadow += (1 - decay) * (weight - shadow) per completed attempt.

    It starts as the weights are when it is built, so that after n completed attempts it still holds decay^n of them.
    `warmup=True` forgets them sooner: the n-th attempt, from 0, then uses min(decay, (1 + n) / (10 + n)). A skipped attempt
    leaves it as it is.

    Always float32, of the masters where there are any: a bfloat16 average moves only where it differs from the weight by more
    than about 2^-8 / (1 - decay) of itself, which at 0.999 is four times over. 4 bytes a parameter, and a copy of the weights
    while it is applied. Buffers have no shadow: the model keeps its own, so that BatchNorm's statistics are those of the trained
    weights (torch.optim.swa_utils.update_bn makes them anew).

    Args:
        update: what steps the weights. Those of later parameter groups start as they are at their first completed attempt.
        decay: above 0 and below 1.
        warmup: a shorter memory at first.

    Raises:
        UsageError: a decay outside of (0, 1), or an optimizer with a parameter that is not the model's.

    Source: Polyak and Juditsky 1992 for averaging; `warmup` is `num_updates` of tf.train.ExponentialMovingAverage.

    >>> import torch
    >>> model = torch.nn.Linear(2, 1)
    >>> update = Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=lambda model, x: model(x).square().mean())
    >>> ema = Ema(update, decay=0.99)
    >>> for _ in range(3):
    ...     ema.after(update([torch.ones(4, 2)]))
    >>> with ema.applied():
    ...     quality = model(torch.ones(1, 2)).item()
    >>> ema.completed
    3
    """

    def __init__(self, update: Update[Any], decay: float = 0.999, *, warmup: bool = False) -> None:
        if not 0.0 < decay < 1.0:
            raise UsageError(f"a decay of {decay} averages nothing", hint="choose one below 1 and near it, such as 0.999")
        self.decay, self.warmup = decay, warmup
        self.completed = 0
        self._update = update
        self._attempts, self._counted = update.counts.attempts, update.counts.completed
        self._shadow: dict[str, Tensor] = {}
        self._grow(update.weights())
        self._leaves()

    def after(self, outcome: Outcome) -> None:
        """Move towards the weights where `outcome` is completed; to be called after every attempt, once.

        StateError for an outcome that came before, and where a completed attempt was left out; nothing has moved then.
        """
        counts = outcome.counts
        if counts.attempts <= self._attempts:
            raise StateError(
                f"the average has seen attempt {self._attempts}, and was given attempt {counts.attempts}",
                hint="call ema.after(outcome) once for each attempt, in order; after a restore, restore the average too",
            )
        missed = counts.completed - outcome.completed - self._counted
        if missed:
            raise StateError(
                f"the average was not told of {missed} completed attempts",
                hint="call ema.after(outcome) after every attempt; after a restore, restore the average too",
                missed=missed,
            )
        if outcome.completed:
            self._move()
        self._attempts, self._counted = counts.attempts, counts.completed

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the model's weights are the average, in float32; afterwards they are back, bit for bit and in their format.

        StateError for an attempt inside, and inside an attempt.
        """
        with self._update.in_float32():
            leaves = self._leaves()
            originals = [leaf.detach().clone() for leaf in leaves.values()]
            try:
                _write(list(leaves.values()), [self._shadow[name] for name in leaves])
                yield
            finally:
                _write(list(leaves.values()), originals)

    def state_dict(self) -> dict[str, Any]:
        """Numbers, and the shadow by the weights' names; the tensors are the average's own, as in torch's state dicts."""
        return {
            "schema": SCHEMA,
            "decay": self.decay,
            "warmup": self.warmup,
            "completed": self.completed,
            "seen": {"attempts": self._attempts, "completed": self._counted},
            "shadow": dict(self._shadow),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on, bit for bit, where `state` was taken. StateError where it is of another average; nothing has changed then."""
        try:
            ours = {"schema": SCHEMA, "decay": self.decay, "warmup": self.warmup}
            theirs = {name: state[name] for name in ours}
            completed, seen, shadow = int(state["completed"]), state["seen"], dict(state["shadow"])
            attempts, counted = int(seen["attempts"]), int(seen["completed"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"this is no state of an average: {type(error).__name__}: {error}", hint="pass what ema.state_dict() gave"
            ) from error
        if theirs != ours:
            raise StateError(f"the average is {ours}, and the state is of {theirs}", hint="build it as it was built")
        weights = self._update.weights()
        wrong = [name for name in weights.keys() | shadow.keys() if not _fits(shadow.get(name), weights.get(name))]
        if wrong:
            raise StateError(f"{min(wrong)!r} is not the same weight in the state and in the model", hint="build the same model")
        self._shadow = {name: shadow[name].to(weight.device, torch.float32, copy=True) for name, weight in weights.items()}
        self.completed, self._attempts, self._counted = completed, attempts, counted

    def _move(self) -> None:
        weights = self._update.weights()
        self._grow(weights)
        decay = min(self.decay, (1 + self.completed) / (10 + self.completed)) if self.warmup else self.decay
        torch._foreach_lerp_([self._shadow[name] for name in weights], list(weights.values()), 1.0 - decay)
        self.completed += 1

    def _grow(self, weights: Mapping[str, Tensor]) -> None:
        """Take up the weights that have no shadow yet."""
        for name, weight in weights.items():
            if name not in self._shadow:
                self._shadow[name] = weight.detach().to(torch.float32, copy=True)

    def _leaves(self) -> dict[str, Tensor]:
        """The model's parameters that have a shadow, by name."""
        leaves = dict(self._update.model.named_parameters())
        foreign = sorted(self._shadow.keys() - leaves.keys())
        if foreign:
            raise UsageError(
                f"the optimizer steps {foreign[0]}, which is not the model's, and the average could not be put into it",
                hint="make it a parameter of the model that the update was given",
            )
        return {name: leaf for name, leaf in leaves.items() if name in self._shadow}


@torch.no_grad()
def _write(leaves: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    torch._foreach_copy_(list(leaves), list(values))


def _fits(one: Any, other: Any) -> bool:
    return isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape
