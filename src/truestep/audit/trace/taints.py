"""Numbers made of gradients that still carry the loss scale, followed until they leave the tensors or become a penalty."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from truestep.audit.events import GradientRead, PenaltyInScaledUnits

if TYPE_CHECKING:
    from truestep.audit.trace.watch import Watcher

KEEPS = frozenset(
    "norm vector_norm abs sum mean max amax min amin std stack cat float double half to clone detach view reshape flatten ravel "
    "squeeze unsqueeze __getitem__ add __add__ __radd__ _foreach_norm cpu contiguous neg permute transpose quantile median".split()
)
"""Operations whose result has the units of what they were given."""

POWERS = {"pow": 2.0, "__pow__": 2.0, "square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0, "dot": 2.0}

PRODUCTS = frozenset("mul __mul__ __rmul__ multiply div __truediv__ true_divide divide".split())

LEAVES = frozenset("item tolist __float__ __format__ numpy __int__ __array__".split())
"""Ways out of tensors."""

NOT_LINEAR = frozenset("norm vector_norm pow __pow__ square sqrt abs exp sub __sub__ __rsub__ clamp relu".split())

MATCHES = 1e-3
"""Relative difference of a number from 1 / scale that still makes it the unscaling."""


class Taints:
    """By what factor a tensor is too large, as long as it lives."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._factors: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self._told: set[tuple[str, int]] = set()

    def __bool__(self) -> bool:
        return len(self._factors) > 0

    def mark(self, tensors: Iterable[Tensor], factor: float) -> None:
        """These are `factor` times what they are called."""
        for tensor in tensors:
            self._factors[tensor] = factor

    def factor(self, tensor: Any) -> float | None:
        """How many times too large a tensor is; None where nothing is known of it."""
        return self._factors.get(tensor) if isinstance(tensor, Tensor) else None

    def follow(self, name: str, given: list[Any], result: list[Any]) -> None:
        """What one operation makes of the factors."""
        known = [(each, factor) for each in given if (factor := self.factor(each)) is not None]
        if not known:
            return
        factor = known[0][1]
        if name in LEAVES:
            self._left(name, known[0][0], factor)
            return
        made = self._made(name, factor, given)
        outputs = [each for each in result if isinstance(each, Tensor) and each is not known[0][0]]
        if made is not None and not math.isclose(made, 1.0, rel_tol=MATCHES):
            self.mark(outputs, made)
            if name in NOT_LINEAR and known[0][0].requires_grad:
                self._penalty(name, factor)

    def _made(self, name: str, factor: float, given: list[Any]) -> float | None:
        if name in PRODUCTS:
            number = next((each for each in given if _is_number(each) and self.factor(each) is None), None)
            if number is None:
                return None if any(self.factor(each) is None for each in given if isinstance(each, Tensor)) else factor * factor
            value = float(number)
            by = 1 / value if "div" in name and value else value
            return 1.0 if math.isclose(by * factor, 1.0, rel_tol=MATCHES) else factor
        if name in POWERS:
            power = next((float(each) for each in given if isinstance(each, (int, float))), POWERS[name])
            return float(factor ** (power if "pow" in name else POWERS[name]))
        if name in ("norm", "vector_norm") or name in KEEPS or name in ("sub", "__sub__", "__rsub__"):
            return factor
        return None

    def _left(self, name: str, tensor: Tensor, factor: float) -> None:
        site = self._watcher.recorder.site()
        if site is None or tensor.numel() != 1 or not self._watcher.recorder.judging:
            return
        self._watcher.recorder.emit(GradientRead, site=site, value=float(tensor), carried=factor, operation=name.strip("_"))

    def _penalty(self, name: str, factor: float) -> None:
        site = self._watcher.recorder.site()
        key = (site.path, site.line) if site is not None else ("", 0)
        if key not in self._told:
            self._told.add(key)
            self._watcher.recorder.emit(PenaltyInScaledUnits, site=site, scale=factor, operation=name)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1 and not value.requires_grad)
