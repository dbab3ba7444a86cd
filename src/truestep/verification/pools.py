"""The elements that each window of a max pool takes, one window a row, as torch lays its windows out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

Rows = Callable[..., Tensor]
"""From an operation's arguments to [..., windows, elements]; -inf is not there."""


def regular(dimensions: int) -> Rows:
    """Of a max pool over so many dimensions; what is padded is never the largest."""

    def rows(x: Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, *_: Any) -> Tensor:
        kernels, strides, paddings, dilations = (_each(v, dimensions) for v in (kernel, stride or kernel, padding, dilation))
        sides = [(before, before + step - 1) for before, step in zip(paddings, strides, strict=True)]  # the last may stand out
        patches = nn.functional.pad(x, [side for pair in reversed(sides) for side in pair], value=-math.inf)
        for place, (size, step, apart) in enumerate(zip(kernels, strides, dilations, strict=True)):
            patches = patches.unfold(x.dim() - dimensions + place, (size - 1) * apart + 1, step)[..., ::apart]
        return patches.flatten(-dimensions)

    return rows


def adaptive(x: Tensor, to: int | Sequence[int]) -> Tensor:
    """Window i of m over n elements takes those from floor(i n / m) up to ceil((i + 1) n / m)."""
    windows = [to] if isinstance(to, int) else list(to)
    places = []
    for size, count in zip(x.shape[-len(windows) :], windows, strict=True):
        order = torch.arange(count, device=x.device)
        first, end = order * size // count, ((order + 1) * size + count - 1) // count
        taken = first[:, None] + torch.arange(int((end - first).max()), device=x.device)
        places.append(taken.where(taken < end[:, None], size)[None])
    return _taken(x, places)


def fractional(dimensions: int) -> Rows:
    """Of a fractional max pool: windows of one size, whose places follow from a number that was drawn for each plane.

    Window i of m starts at int((i + u) alpha) - int(u alpha), where alpha = (n - k) / (m - 1), and the last at n - k. torch keeps
    the numbers of two dimensions in the order width, height.
    """

    def rows(x: Tensor, kernel: Sequence[int], to: Sequence[int], drawn: Tensor) -> Tensor:
        drawn = drawn.flatten(0, -2)
        columns = drawn.flip(-1) if dimensions == 2 else drawn
        sizes = x.shape[-dimensions:]
        each = zip(columns.unbind(-1), sizes, kernel, to, strict=True)
        return _taken(x, [_starts(u, n, k, m)[..., None] + torch.arange(k, device=x.device) for u, n, k, m in each])

    return rows


def _starts(drawn: Tensor, size: int, kernel: int, windows: int) -> Tensor:
    """[planes, windows]."""
    last = torch.full((len(drawn), 1), size - kernel, device=drawn.device)
    if windows == 1:
        return last
    alpha = (size - kernel) / (windows - 1)
    order = torch.arange(windows - 1, device=drawn.device, dtype=drawn.dtype)
    return torch.cat([((drawn[:, None] + order) * alpha).long() - (drawn[:, None] * alpha).long(), last], dim=1)


def _taken(x: Tensor, places: Sequence[Tensor]) -> Tensor:
    """Args: places: of each of the last dimensions, [planes or 1, windows, elements]; the one past the end is not there."""
    dimensions = len(places)
    planes = nn.functional.pad(x, [0, 1] * dimensions, value=-math.inf).flatten(0, -dimensions - 1)
    for axis, taken in enumerate(places, start=1):
        shape = [len(taken), *[1] * (planes.dim() - 1)]
        shape[axis] = -1
        found = planes.take_along_dim(taken.reshape(shape), axis)
        planes = found.unflatten(axis, taken.shape[1:]).movedim(axis + 1, -1)  # type: ignore[no-untyped-call]  # torch's
    return planes.flatten(-dimensions)


def _each(value: int | Sequence[int], count: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values
