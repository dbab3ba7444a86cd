"""Grouping microbatches into windows, and reading a microbatch's size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from torch import Tensor

from truestep.errors import WindowError
from truestep.probe.tree import first_of, leaves

M = TypeVar("M")


class Window(list[M]):
    """The microbatches of one attempt; `ends_epoch` is true for the last one that its iterable gave.

    Where `windows` made it, asking may read one microbatch ahead: nobody asks but a clock that ticks by epochs.
    """

    def __init__(self, microbatches: Iterable[M] = ()) -> None:
        super().__init__(microbatches)
        self._ends_epoch: bool | Callable[[], bool] = False

    @property
    def ends_epoch(self) -> bool:
        """Whether nothing of the epoch comes after it."""
        if not isinstance(self._ends_epoch, bool):
            self._ends_epoch = self._ends_epoch()
        return self._ends_epoch

    @ends_epoch.setter
    def ends_epoch(self, ends: bool | Callable[[], bool]) -> None:
        self._ends_epoch = ends


def windows(microbatches: Iterable[M], size: int) -> Iterator[Window[M]]:
    """Groups of `size` microbatches in their order; the last one of the iterable may be shorter, and is marked `ends_epoch`.

    A short window is divided by its own total, and nothing is carried into the next epoch. Only the microbatches of a window
    are taken before it is used, so that a loader's own state is that of what was used. A clock by epochs asks for more: whether
    another one follows, which `microbatches.ends_epoch` tells where it has one, and reading one ahead where not.

    >>> [(list(window), window.ends_epoch) for window in windows([1, 2, 3], 2)]
    [([1, 2], False), ([3], True)]
    """
    if not isinstance(size, int) or size < 1:
        raise WindowError(f"a window of {size} microbatches was asked for", hint="ask for a whole number, 1 or more", size=size)
    return _grouped(microbatches, size)


def _grouped(microbatches: Iterable[M], size: int) -> Iterator[Window[M]]:
    coming = iter(microbatches)
    ahead: list[M] = []
    window: Window[M] | None = None

    def is_over() -> bool:
        told = getattr(microbatches, "ends_epoch", None)
        if told is None and not ahead:
            ahead.extend(islice(coming, 1))
        return not ahead if told is None else bool(told)

    while True:
        following = Window([*ahead, *islice(coming, size - len(ahead))])
        ahead.clear()
        if window is not None:
            window.ends_epoch = not following
        if not following:
            return
        window = following
        window.ends_epoch = len(window) < size or is_over
        yield window


def demand_window(window: object) -> None:
    """WindowError for anything but a list with a microbatch in it."""
    if not isinstance(window, list):
        raise WindowError(
            f"a window is a list of microbatches, and this is a {type(window).__name__}",
            hint="write update([microbatch]) for a window of one, or take it from truestep.windows(loader, n)",
            found=type(window).__name__,
        )
    if not window:
        raise WindowError("the window holds no microbatch", hint="give it at least one, or make no attempt")


def examples_of(microbatch: Any) -> int:
    """The number of examples: the first dimension of the first array in `microbatch`, searched depth first.

    WindowError where there is none, and where it lies in a list inside of another and the arrays disagree: a list of images.

    >>> import torch
    >>> examples_of({"input": torch.zeros(8, 3), "label": torch.zeros(8)})
    8
    """
    first = first_of(microbatch)
    if isinstance(first, Tensor) and first.dim():  # nearly always
        return first.shape[0]
    arrays = ((path, array) for path, array in leaves(microbatch) if len(array.shape))
    path, first = next(arrays, ("", None))
    if first is not None:
        if path.count("[") > 1 and any(array.shape[0] != first.shape[0] for _, array in arrays):
            raise WindowError(
                f"the number of examples cannot be read off a nested microbatch whose arrays differ in their first dimension "
                f"({first.shape[0]} at {path})",
                hint="give Update(examples=...), a function from a microbatch to its number of examples",
                path=path,
            )
        return int(first.shape[0])
    raise WindowError(
        f"the number of examples cannot be read off a {type(microbatch).__name__} without arrays",
        hint="give Update(examples=...), a function from a microbatch to its number of examples",
        found=type(microbatch).__name__,
    )


def demand_count(name: str, found: Any) -> int:
    """A number of examples or tokens as an int; WindowError unless it is whole and at least 0."""
    try:
        count = int(found)
        whole = count == found and count >= 0
    except (TypeError, ValueError, OverflowError, RuntimeError):
        whole = False
    if not whole:
        raise WindowError(f"a number of {name} is whole and at least 0, and this is {found!r}", hint=f"mend {name}=...")
    return count
