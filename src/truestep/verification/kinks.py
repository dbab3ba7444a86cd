"""Where a rounding can change a derivative by a jump: ReLU, clamps, maxima, told by how near to the kink the elements lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from truestep.verification import pools
from truestep.verification.roundings import run

NEAR = 4.0
"""Standard deviations of rounding within which an element may land on the other side."""

_aten = torch.ops.aten


class Kinks(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is untyped
    """Around one forward and backward; what it meets is asked for by `risk`.

    An element on the wrong side of a kink has a derivative that is wrong as a whole, however small the rounding that put it
    there. The rounding error of an element after d operations is taken as normal with the standard deviation u sqrt(d / 3), times
    the root mean square of its tensor: d roundings, each spread evenly over half a last place either way.
    Elements that are exactly 0 are exact in every format, hence on their own side.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operations = 0
        self._met: list[tuple[Tensor, int, Tensor]] = []

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Notes the distances from the kink, relative to the size of what is rounded, and runs the operation."""
        if not func.is_view:
            self._operations += 1
        kink = _KINKS.get(func)
        if kink is not None:
            distances, passing, moved = kink(*args)
            size = torch.stack([x.square().mean() for x in moved]).sum().sqrt()
            self._met.append(((distances.flatten() / size).float(), self._operations, passing))
        return run(func, args, kwargs)

    @property
    def any(self) -> bool:
        """Whether there was a kink at all."""
        return bool(self._met)

    def risk(self, unit: float) -> float:
        """The relative error that flipped elements explain in a format of this unit roundoff: sqrt(sum of k / m).

        The gradient is a sum over the m elements that pass one, and k of them appear or vanish: as many as are expected to, three
        standard deviations more, and one more where any lies near at all.
        """
        shares = 0.0
        for distances, operations, passing in self._met:
            apart = distances / (unit * math.sqrt(operations / 3))
            expected = float(torch.special.ndtr(-apart[apart > 0]).sum())
            flipped = expected + 3 * math.sqrt(expected) + bool(((apart > 0) & (apart < NEAR)).any())
            shares += flipped / max(1.0, float(passing))
        return math.sqrt(min(1.0, shares))


Met = tuple[Tensor, Tensor, Sequence[Tensor]]
"""Distances from the nearest kink, how many elements pass, and the tensors whose roundings move an element to the other side."""


def _bounded(x: Tensor, low: Any = None, high: Any = None, *_: Any) -> Met:
    """What passes between two bounds, either of which may be missing."""
    apart = [(x - bound).abs() for bound in (low, high) if bound is not None]
    passing = torch.ones_like(x, dtype=torch.bool) if low is None else x > low
    return torch.stack(apart).amin(0), (passing if high is None else passing & (x < high)).sum(), [x]


def _at(*bounds: float | None) -> Callable[..., Met]:
    """Between bounds that the operation does not name."""
    return lambda x, *_: _bounded(x, *bounds)


def _hardtanh(x: Tensor, low: Any = -1.0, high: Any = 1.0, *_: Any) -> Met:
    return _bounded(x, low, high)


def _bounded_below(x: Tensor, low: Any, *_: Any) -> Met:
    return _bounded(x, low)


def _below(x: Tensor, high: Any) -> Met:
    return _bounded(x, None, high)


def _between(one: Tensor, other: Tensor) -> Met:
    return (one - other).abs(), (one > other).sum(), [one, other]


def _largest(x: Tensor, dims: int | Sequence[int] = (), *_: Any) -> Met:
    """How far the largest along some dimensions, or of all, lies above the second."""
    places = [dims] if isinstance(dims, int) else list(dims) or list(range(x.dim()))
    rows = x.movedim(places, list(range(-len(places), 0))).flatten(-len(places)) if x.dim() else x.reshape(1)
    return _runner_up(rows, x)


def _smallest(x: Tensor, dims: int | Sequence[int] = (), *_: Any) -> Met:
    return _largest(-x, dims)


def _pooled(rows: pools.Rows) -> Callable[..., Met]:
    return lambda x, *args: _runner_up(rows(x, *args), x)


def _runner_up(rows: Tensor, x: Tensor) -> Met:
    """How far the largest of each row lies above the second: infinitely, where there is none.

    Both are rounded, and a change takes the derivative from one and gives it to the other: two flips.
    """
    if rows.shape[-1] == 1:
        apart = torch.full_like(rows[..., 0], math.inf)
    else:
        best: Tensor = rows.topk(2).values
        apart = best[..., 0] - best[..., 1]
    return apart, (apart > 0).sum() / 2, [x, x]


_KINKS: dict[Any, Callable[..., Met]] = {
    _aten.relu.default: _at(0.0),
    _aten.relu_.default: _at(0.0),
    _aten.leaky_relu.default: _at(0.0),
    _aten.leaky_relu_.default: _at(0.0),
    _aten._prelu_kernel.default: _at(0.0),
    _aten.rrelu_with_noise.default: _at(0.0),
    _aten.abs.default: _at(0.0),
    _aten.hardsigmoid.default: _at(-3.0, 3.0),
    _aten.hardsigmoid_.default: _at(-3.0, 3.0),
    _aten.hardswish.default: _at(-3.0, 3.0),
    _aten.hardswish_.default: _at(-3.0, 3.0),
    _aten.hardtanh.default: _hardtanh,
    _aten.hardtanh_.default: _hardtanh,
    _aten.threshold.default: _bounded_below,
    _aten.threshold_.default: _bounded_below,
    _aten.clamp.default: _bounded,
    _aten.clamp_.default: _bounded,
    _aten.clamp.Tensor: _bounded,
    _aten.clamp_min.default: _bounded,
    _aten.clamp_min_.default: _bounded,
    _aten.clamp_max.default: _below,
    _aten.clamp_max_.default: _below,
    _aten.maximum.default: _between,
    _aten.minimum.default: _between,
    _aten.max.default: _largest,
    _aten.max.dim: _largest,
    _aten.amax.default: _largest,
    _aten.min.default: _smallest,
    _aten.min.dim: _smallest,
    _aten.amin.default: _smallest,
    _aten.max_pool2d_with_indices.default: _pooled(pools.regular(2)),
    _aten.max_pool3d_with_indices.default: _pooled(pools.regular(3)),
    _aten.adaptive_max_pool2d.default: _pooled(pools.adaptive),
    _aten.adaptive_max_pool3d.default: _pooled(pools.adaptive),
    _aten.fractional_max_pool2d.default: _pooled(pools.fractional(2)),
    _aten.fractional_max_pool3d.default: _pooled(pools.fractional(3)),
}
