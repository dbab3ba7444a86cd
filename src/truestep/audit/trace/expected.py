"""The gradient that should reach an optimizer: the sum of what each backward added, each divided by its own loss scale."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

from truestep.audit.events import Judged

EPSILON = 1e-6
"""What torch's clip adds to a norm before it divides by it."""


class Expected:
    """For each parameter, t = sum over the window of (gradient added by backward k) / (loss scale of backward k)."""

    def __init__(self) -> None:
        self._right: dict[int, tuple[Tensor, Tensor]] = {}
        self._clips: list[tuple[Literal["norm", "value"], float, frozenset[int], float, float | None]] = []
        self.before: dict[int, Tensor] = {}
        """Copies of the gradients that stood there when the backward began."""

    def clear(self) -> None:
        """Nothing is expected."""
        self.clear_right()
        self.before = {}

    def clear_right(self) -> None:
        """Nothing of earlier backwards is expected; what stood there when one began is still known."""
        self._right, self._clips = {}, []

    def keep(self, parameters: Iterable[Tensor]) -> None:
        """A backward begins: what stands there is not its own."""
        self.before = {id(each): each.grad.detach().clone() for each in parameters if each.grad is not None}

    def add(self, parameters: Iterable[Tensor], scale: float) -> None:
        """A backward ended; a clip before it was none of the whole window."""
        self._clips = []
        for parameter in parameters:
            gradient = parameter.grad
            if gradient is None:
                continue
            added = _plain(gradient)
            before = self.before.get(id(parameter))
            if before is not None:
                added = added - _plain(before)
            added = added / scale
            held = self._right.get(id(parameter))
            self._right[id(parameter)] = (parameter, added if held is None else held[1].add_(added))
        self.before = {}

    def clip(
        self,
        how: Literal["norm", "value"],
        limit: float,
        parameters: Iterable[Tensor],
        *,
        beside: float = 0.0,
        measured: float | None = None,
    ) -> None:
        """A clip of these, in original units, is part of what is expected.

        `beside` is the norm of those not known here; `measured` is what the clip itself took for the norm of all, of whatever
        order, where it was in original units.
        """
        self._clips.append((how, limit, frozenset(map(id, parameters)), beside, measured))

    def judge(self, parameters: Iterable[Tensor], divide_by: float) -> Judged | None:
        """The gradients as they stand, divided by what the optimizer will still divide them by, beside the right ones.

        None where nothing is expected, or something is not finite: then there is no right gradient.
        """
        parameters = list(parameters)
        right, clipped = self.right(parameters)
        pairs = [
            (right.get(id(each)), None if each.grad is None else _plain(each.grad))
            for each in parameters
            if id(each) in right or each.grad is not None
        ]
        dot = squares_right = squares_given = 0.0
        for expected, given in pairs:
            if expected is not None:
                squares_right += _dot(expected, expected)
            if given is not None:
                squares_given += _dot(given, given)
            if expected is not None and given is not None:
                dot += _dot(expected, given)
        expected_norm, observed = math.sqrt(max(squares_right, 0.0)), math.sqrt(max(squares_given, 0.0)) / divide_by
        if not self._right or not math.isfinite(expected_norm) or not math.isfinite(observed):
            return None
        both = math.sqrt(squares_right) * math.sqrt(squares_given)
        return Judged(
            expected=expected_norm / clipped if clipped else expected_norm,
            observed=observed,
            cosine=max(-1.0, min(1.0, dot / both)) if both else None,
            clipped=clipped,
        )

    def right(self, parameters: Iterable[Tensor]) -> tuple[dict[int, Tensor], float]:
        """The right gradients by parameter, clips included, and the factor by which those shortened them."""
        right = {id(each): self._right[id(each)][1] for each in parameters if id(each) in self._right}
        before = _norm(right.values())
        for how, limit, held, beside, measured in self._clips:
            concerned = {key: value for key, value in right.items() if key in held}
            if how == "value":
                right |= {key: value.clamp(-limit, limit) for key, value in concerned.items()}
            else:
                everything = [self._right[key][1] for key in held if key in self._right]
                whole = math.hypot(_norm(everything), beside) if measured is None else measured
                factor = min(1.0, limit / (whole + EPSILON))
                right |= {key: value * factor for key, value in concerned.items()}
        after = _norm(right.values())
        return right, after / before if before and math.isfinite(before) else 1.0


def _plain(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    if tensor.is_sparse:
        tensor = tensor.to_dense()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.to(torch.float32, copy=True) if tensor.dtype != torch.float64 else tensor.clone()


def _dot(left: Tensor, right: Tensor) -> float:
    return float(torch.dot(left.flatten().double(), right.flatten().double()))


def _norm(tensors: Iterable[Tensor]) -> float:
    return math.sqrt(sum(_dot(each, each) for each in tensors))
