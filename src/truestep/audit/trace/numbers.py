"""Numbers that a format cannot hold: a first value that overflows, an epsilon that vanishes, an accumulator that stands still."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from truestep.audit.events import Lost, Overflowed, Unsafe, Vanished
from truestep.audit.site import Site
from truestep.audit.trace.cuts import Cuts
from truestep.audit.trace.tracks import LOW
from truestep.probe.finiteness import not_finite
from truestep.probe.owners import OURS, OWNERS

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher


PUTS = frozenset(
    (
        "full",
        "full_like",
        "fill_",
        "masked_fill",
        "masked_fill_",
        "empty",
        "empty_like",
        "new_empty",
        "new_full",
        "where",
        "tril",
        "triu",
        "__setitem__",
        "item",
    )
)
"""Operations that put an infinity there because they were told to, or what stood in memory."""

ADDS_EPSILON = frozenset(
    ("add", "add_", "__add__", "__radd__", "__iadd__", "clamp", "clamp_", "clamp_min", "clamp_min_", "maximum")
)

ACCUMULATES = frozenset(("add_", "__iadd__", "lerp_", "sub_", "__isub__", "addcmul_"))

MAKES = frozenset(
    (
        "zeros",
        "zeros_like",
        "ones",
        "ones_like",
        "empty",
        "empty_like",
        "full",
        "full_like",
        "new_zeros",
        "new_full",
        "tensor",
        "clone",
        "to",
        "half",
        "bfloat16",
        "type",
        "detach",
    )
)
"""Operations that give the tensor that an accumulator begins as."""

BACK = frozenset(("grad", "backward"))
"""Operations that give gradients: these overflow by the loss scale, which is what a scaler skips for."""

BINARY = frozenset(("binary_cross_entropy",))


class Numbers:
    """Looks at what operations are given and give, while a window is judged."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._told: set[tuple[Any, ...]] = set()
        self._bad = False
        self._made: MutableMapping[Tensor, Site | None] = WeakIdKeyDictionary()
        self.cuts = Cuts(watcher)

    def begin(self) -> None:
        """A forward begins: nothing in it has overflowed yet."""
        self._bad = False

    def before(self, name: str, given: list[Any]) -> Tensor | None:
        """A copy of a low-precision accumulator that is about to be added to."""
        target = given[0] if given else None
        if name in ACCUMULATES and isinstance(target, Tensor) and target.dtype in LOW and not target.requires_grad:
            return target.detach().clone()
        return None

    def after(self, name: str, func: Any, given: list[Any], made: list[Any], kept: Tensor | None) -> None:
        """What the operation did to the numbers."""
        if name in BINARY:
            self._unsafe(name, given)
        if name in ADDS_EPSILON:
            self._epsilon(name, given)
        if kept is not None:
            self._accumulated(given, kept)
        elif name in MAKES and made and isinstance(made[0], Tensor) and made[0].dtype in LOW and made[0] not in self._made:
            self._made[made[0]] = self._watcher.recorder.site()
        self.cuts.follow(name, given, made)
        if not self._bad and name not in PUTS and name not in BACK:
            self._overflow(name, func, given, made)

    def stepping(self, name: str, given: list[Any]) -> None:
        """Likewise of an operation inside of an optimizer's step; torch's own optimizers are told by their eps."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
            frame = frame.f_back
        if OWNERS[frame.f_code.co_filename] != "machinery":
            self._epsilon(name, given)

    def made_at(self, tensor: Tensor) -> Site | None:
        """The line that made a tensor low in precision; None where it was not seen."""
        return self._watcher.modules.cast_at(tensor) or self._made.get(tensor)

    def _once(self, *what: Any) -> bool:
        site = self._watcher.recorder.site()
        key = (*what, None if site is None else site.place)
        new = key not in self._told
        self._told.add(key)
        return new

    def _unsafe(self, name: str, given: list[Any]) -> None:
        dtype = self._watcher.autocasts.dtype
        if dtype is not None and self._once("unsafe", name):
            self._watcher.recorder.emit(Unsafe, site=self._watcher.recorder.site(), operation=name, dtype=dtype)

    def _epsilon(self, name: str, given: list[Any]) -> None:
        numbers = [each for each in given if isinstance(each, float) and each > 0.0]
        tensors = [each for each in given if isinstance(each, Tensor)]
        low = [each for each in tensors if each.dtype in LOW]
        for number in numbers if len(tensors) == 1 else ():  # beside a second tensor it is that one's factor
            for tensor in low:
                if float(torch.tensor(number, dtype=tensor.dtype)) == 0.0 and self._once("vanished", number):
                    dtype = str(tensor.dtype).removeprefix("torch.")
                    self._watcher.recorder.emit(
                        Vanished, site=self._watcher.recorder.site(), number=number, dtype=dtype, operation=name.strip("_")
                    )

    def _accumulated(self, given: list[Any], kept: Tensor) -> None:
        target = given[0]
        sources = [each for each in given[1:] if isinstance(each, Tensor) and each.shape == target.shape]
        if not sources or target.numel() < 2:
            return
        asked = (sources[0] != 0) & (kept != 0) & (sources[0].to(kept.dtype) != kept)
        moved = (target.detach() != kept) & asked
        self._watcher.recorder.emit(
            Lost,
            site=self._watcher.recorder.site(),
            dtype=str(target.dtype).removeprefix("torch."),
            moved=int(moved.sum()),
            asked=int(asked.sum()),
            made=self.made_at(target),
        ) if int(asked.sum()) else None

    def _overflow(self, name: str, func: Any, given: list[Any], made: list[Any]) -> None:
        results = [each for each in made if isinstance(each, Tensor) and each.is_floating_point() and not each.is_sparse]
        if all(map(_finite, results)):
            return
        if not all(_finite(each) for each in given if isinstance(each, Tensor)):
            return
        self._bad = True
        bad = next(each for each in results if not _finite(each))
        modules = self._watcher.modules
        self._watcher.recorder.emit(
            Overflowed,
            site=self._watcher.recorder.site(),
            operation=name.strip("_"),
            module=modules.name(modules.stack[-1]) if modules.stack else None,
            dtype=str(bad.dtype).removeprefix("torch."),
            largest=_largest(func, given),
            in_loss=not any(any(True for _ in module.parameters()) for module in modules.stack),
            negative=bool((bad.detach()[~torch.isfinite(bad.detach())] == -torch.inf).all()),
        )


def _finite(tensor: Any) -> bool:
    if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or tensor.is_sparse:
        return True
    return not_finite(tensor) is None


def _largest(func: Any, given: list[Any]) -> float | None:
    """The largest magnitude that the same operation gives in float32; None where it cannot be told, or is not finite either."""
    try:
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            wide = [each.detach().float() if isinstance(each, Tensor) and each.is_floating_point() else each for each in given]
            result = func(*wide)
    except Exception:  # an operation with more arguments than its tensors and numbers
        return None
    if not isinstance(result, Tensor) or not _finite(result) or not result.numel():
        return None
    return float(result.abs().max())
