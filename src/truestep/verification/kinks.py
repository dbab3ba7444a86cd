"""Where a rounding can change a derivative by a jump: ReLU and its kin, told by how near to the kink the elements lie."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

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
        """Notes the distances from the kink, relative to the tensor's size, and runs the operation."""
        if not func.is_view:
            self._operations += 1
        distance = _DISTANCES.get(func)
        if distance is not None:
            x = distance(*args)
            size = x.square().mean().sqrt()
            self._met.append(((x.abs().flatten() / size).float(), self._operations, (x > 0).sum()))
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


def _from_zero(x: Tensor, *_: Any) -> Tensor:
    return x


def _from_minimum(x: Tensor, minimum: Any, *_: Any) -> Tensor:
    return torch.sub(x, minimum)


def _between(one: Tensor, other: Tensor) -> Tensor:
    return one - other


def _from_runner_up(x: Tensor, kernel: Sequence[int], stride: Sequence[int] = (), *_: Any) -> Tensor:
    """How far the largest of each window of a two-dimensional max pool lies above the second."""
    patches: Tensor = x.unfold(-2, kernel[0], (stride or kernel)[0]).unfold(-2, kernel[-1], (stride or kernel)[-1])
    best: Tensor = patches.flatten(-2).topk(2).values
    distance: Tensor = best[..., 0] - best[..., 1]
    return distance


_DISTANCES: dict[Any, Callable[..., Tensor]] = {
    _aten.relu.default: _from_zero,
    _aten.relu_.default: _from_zero,
    _aten.leaky_relu.default: _from_zero,
    _aten.leaky_relu_.default: _from_zero,
    _aten.hardtanh.default: _from_zero,
    _aten.abs.default: _from_zero,
    _aten.threshold.default: _from_minimum,
    _aten.clamp_min.default: _from_minimum,
    _aten.clamp_min_.default: _from_minimum,
    _aten.maximum.default: _between,
    _aten.minimum.default: _between,
    _aten.max_pool2d_with_indices.default: _from_runner_up,
}
