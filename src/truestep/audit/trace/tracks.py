"""What is known of each optimizer while its window is open: its parameters, whose gradients they hold, and the right ones."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from truestep.audit.site import Site
from truestep.audit.trace.expected import Expected

Standing = dict[int, tuple[int, int]]
"""For each parameter with a gradient, which one it is and how often it was written."""


WHOLE = 0.99
"""The least weight of losses that nothing divides."""

LOW = (torch.float16, torch.bfloat16)
"""The formats narrower than float32 that people keep weights in."""


@dataclass(eq=False)
class Track:
    """One optimizer."""

    number: int
    optimizer: weakref.ref[Optimizer]
    backwards: list[int] = field(default_factory=list)
    """Since the last attempt, those whose gradients are still there."""
    dropped: list[int] = field(default_factory=list)
    sites: dict[int, Site | None] = field(default_factory=dict)
    carried: float = 1.0
    """The loss scale that the gradients carry."""
    scaler: int | None = None
    judged: bool = False
    """The window's numbers are looked at, from its first backward on."""
    fit: bool = True
    """The gradients were finite after the last backward that reached them, where that was looked at."""
    stale: bool = False
    """The gradients that stand there have been used by a step."""
    standing: Standing = field(default_factory=dict)
    """The first gradient as the last backward or attempt left it; kept where the window is not judged."""
    lr: float | None = None
    """The learning rate of the first group, as it was last looked at."""
    attempts: int = 0
    weights: tuple[Tensor, ...] | None = None
    """The norm of each weight when the last backward ended; None where it was not looked."""
    held: float = 0.0
    """The weight of the losses whose gradients are there, together: 1 for an undivided mean; NaN where it is not known."""
    seen_shadows: int = 0
    told: set[torch.dtype | str] = field(default_factory=set)
    expected: Expected = field(default_factory=Expected)
    seen: dict[str, Any] = field(default_factory=dict)

    @property
    def parameters(self) -> list[Tensor]:
        """Those that it steps now."""
        optimizer = self.optimizer()
        return [] if optimizer is None else [each for group in optimizer.param_groups for each in group["params"]]

    def weights_now(self) -> tuple[Tensor, ...]:
        """The norm of each parameter, complex ones as pairs; nothing is waited for."""
        values = [torch.view_as_real(each.detach()) if each.is_complex() else each.detach() for each in self.parameters]
        return torch._foreach_norm(values, 2, dtype=torch.float32) if values else ()

    def moved(self) -> list[Tensor] | None:
        """The parameters that were written since the last backward; None where it was not looked."""
        if self.weights is None:
            return None
        pairs = zip(self.parameters, self.weights, self.weights_now(), strict=False)
        return [each for each, before, now in pairs if bool(before != now)]

    def left_behind(self) -> bool:
        """Whether all weights were moved away from under gradients of a whole loss; those whose gradient is zero may stay.

        A mean over several places divides each loss by their number, and what attacks a part of the weights, such as the
        embeddings, may well add what it finds there.
        """
        moved = [] if self.stale or not self.held >= WHOLE else self.moved()
        known = {id(each) for each in moved or ()}
        return bool(known) and all(id(each) in known or not each.grad.any() for each in self.parameters if each.grad is not None)

    def reset(self) -> None:
        """The next window begins."""
        self.backwards, self.dropped, self.sites, self.held = [], [], {}, 0.0
        self.expected.clear()
        self.stale, self.judged = True, False
        self.carried = 1.0


class Tracks:
    """Every optimizer that was seen, in the order in which it was."""

    def __init__(self) -> None:
        self._tracks: weakref.WeakKeyDictionary[Optimizer, Track] = weakref.WeakKeyDictionary()
        self._count = 0

    def __iter__(self) -> Iterator[Track]:
        """Each, in order."""
        return iter(list(self._tracks.values()))

    def of(self, optimizer: Optimizer) -> Track | None:
        """The optimizer's own; None where it was not seen yet."""
        return self._tracks.get(bare(optimizer))

    def add(self, optimizer: Optimizer) -> Track:
        """The optimizer's own, begun where it was not seen yet."""
        optimizer = bare(optimizer)
        track = self._tracks.get(optimizer)
        if track is None:
            track = self._tracks[optimizer] = Track(number=self._count, optimizer=weakref.ref(optimizer))
            self._count += 1
        return track

    def holding(self, tensors: Iterable[Tensor]) -> list[Track]:
        """Those that step one of these parameters."""
        wanted = {id(tensor) for tensor in tensors}
        return [track for track in self if any(id(parameter) in wanted for parameter in track.parameters)]


def standing(parameters: Iterable[Tensor], most: int | None = None) -> Standing:
    """The gradients that are there, or the first of them, without looking at a number."""
    there = ((id(each), (id(gradient), gradient._version)) for each in parameters if (gradient := each.grad) is not None)
    return dict(islice(there, most))


def bare(optimizer: Any) -> Any:
    """The optimizer whose own step torch's hooks see, inside of a library's wrapper, which may pass for one itself."""
    while not isinstance(optimizer, Optimizer) and hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    inner = getattr(optimizer, "optimizer", None)
    while isinstance(inner, Optimizer) and inner is not optimizer and not getattr(type(optimizer).step, "hooked", False):
        optimizer, inner = inner, getattr(inner, "optimizer", None)
    return optimizer


def gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    """Those that are there; a sparse one as the values that it holds."""
    found = [parameter.grad for parameter in parameters]
    return [_dense(gradient) for gradient in found if gradient is not None]


def ranks() -> int:
    """The processes that train together; 1 where there is one, or none has begun to."""
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def norm(tensors: list[Tensor]) -> float:
    """Of all elements together, summed in float64; 0 for none."""
    if not tensors:
        return 0.0
    norms = torch.stack([each.double() for each in torch._foreach_norm([tensor.float() for tensor in tensors])])
    return float(torch.linalg.vector_norm(norms))


def _dense(gradient: Tensor) -> Tensor:
    gradient = gradient.detach()
    if gradient.is_sparse:
        gradient = gradient.coalesce().values()
    return torch.view_as_real(gradient) if gradient.is_complex() else gradient
