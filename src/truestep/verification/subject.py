"""What is verified, whoever owns the loop: a model, its optimizers, one attempt, and the loss of its full batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.attempt import demand_scalar
from truestep.engine.clip import Clip
from truestep.engine.parameters import parameters_of
from truestep.engine.terms import Loss, TermShares
from truestep.engine.weights import LossIs, Weight, sum_of
from truestep.errors import LossError
from truestep.tasks.place import line_of
from truestep.verification.parts import Parts


class Full(NamedTuple):
    """A window and its full batch."""

    window: list[Any]
    joined: Any
    """All its examples as one microbatch; None where they cannot be joined."""
    why_not: str | None
    """What stood in the way."""
    added: bool = False
    """Whether whole numbers in it were added up, as counts are."""


class Named(NamedTuple):
    """The parameters of one attempt by their names."""

    trained: dict[str, Parameter]
    """What takes a gradient: the model's own, also where an optimizer holds masters of them, and what else is stepped. Those of
    the model that are in no optimizer are among them, for the full batch would train them."""
    stepped: frozenset[str]
    """Those that are in an optimizer."""
    names: Mapping[int, str]
    """Of each parameter that is stepped, and of the model's, by its id."""
    tensors: tuple[Tensor, ...]
    """These parameters and the model's buffers: all that an attempt may write."""
    parts: Parts
    """What all of this was found in."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One loop, its parts, and how to undo what it does."""

    title: str
    policy: str | None
    """The policy's name; None for a loop of one's own."""
    model: nn.Module
    optimizers: tuple[Optimizer, ...]
    loss: Callable[[Any, Any], Loss]
    loss_is: LossIs
    weight: Callable[[Any], Weight]
    """Of a microbatch: what its loss is a mean over, of each term by its name."""
    counts: bool
    """Whether that is a number of examples, hence the same in whatever format a microbatch is."""
    clip: Clip | None
    attempt: Callable[[list[Any]], str | None]
    """One attempt on a window: why it was skipped, or None; None too where the loop does not say."""
    scale: Callable[[], float | None]
    """The loss scale as it stands; None where nobody can tell."""
    names: Callable[[], dict[int, str]]
    """The name of each parameter that is stepped, by its id."""
    in_float32: Callable[[], AbstractContextManager[object]]
    """Inside, the model's parameters are float32."""
    kept: Callable[[], AbstractContextManager[None]]
    """Afterwards, all is as before."""

    @property
    def device(self) -> torch.device:
        """Where the parameters lie."""
        every = (p for optimizer in self.optimizers for group in optimizer.param_groups for p in group["params"])
        first: Tensor = next(every)
        return first.device

    def named(self, known: Named | None = None) -> Named:
        """The parameters as they stand: those that are `known`, where they are the same still."""
        if known is not None and known.parts.same:
            return known
        names, parts = self.names(), Parts(self.model, self.optimizers)
        stepped = {names[id(p)]: p for p in parameters_of(*self.optimizers)}
        every = stepped | dict(self.model.named_parameters())
        trained = {name: p for name, p in every.items() if p.requires_grad}
        tensors = {id(each): each for each in (*stepped.values(), *parts.tensors)}
        return Named(trained, frozenset(stepped), names, tuple(tensors.values()), parts)

    def weights(self, window: Sequence[Any]) -> list[Weight]:
        """What each microbatch of `window` weighs; 1 for losses that come as shares, which nobody weighs."""
        return [1.0 if self.loss_is == "share" else self.weight(microbatch) for microbatch in window]

    def window_loss(self, full: Full, weights: list[Weight] | None = None) -> Tensor:
        """The loss whose gradient is to arrive: of the full batch in one forward, else the weighted sum of the microbatches'."""
        weights = self.weights(full.window) if weights is None else weights
        if full.joined is None:
            return self.weighted(list(zip(full.window, weights, strict=True)), total=sum_of(weights))
        return self.weighted([(full.joined, sum_of(weights))], total=sum_of(weights))

    def mean_loss(self, model: Any, microbatch: Any) -> Tensor:
        """The loss of one microbatch alone, a mean over its own weight; of several terms their sum."""
        weight = self.weights([microbatch])[0]
        return self.weighted([(microbatch, weight)], total=weight)

    def weighted(self, parts: Sequence[tuple[Any, Weight]], *, total: Weight) -> Tensor:
        """The sum of the microbatches' losses, each at its share of `total`.

        The engine tells the terms apart; their shares are plain quotients of our own, for its shares are among what is verified.
        """
        terms, losses = TermShares(self.loss_is, None if self.loss_is == "share" else total), []
        for microbatch, weight in parts:
            loss = self._demanded(self.loss(self.model, microbatch))
            if self.loss_is == "share":
                losses += [summand.loss for summand in terms.given(loss, 1.0)]  # type: ignore[arg-type]  # shares have no terms
                continue
            for term, value, _, own in terms.summands(loss, weight):
                whole = total if term is None else total[term]  # type: ignore[index]  # the terms of the loss are the total's
                losses.append(value * ((own if self.loss_is == "mean" else 1.0) / whole))  # type: ignore[operator]  # a number each
        return torch.stack([loss.reshape(()) for loss in losses]).sum() if losses else torch.zeros(())

    def _demanded(self, loss: Loss) -> Loss:
        """`loss`; LossError, with the line where it is defined, for one that is no scalar of a graph."""
        try:
            for each in loss.values() if isinstance(loss, Mapping) else (loss,):
                demand_scalar(each)
        except LossError as error:
            raise LossError(f"{line_of(self.loss)}: {error.summary}", hint=error.hint, **error.facts) from None
        return loss
