"""The loss scale: a value, and its next value. Pure."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from typing import Literal

from truestep.errors import PolicyError


@dataclass(frozen=True, kw_only=True)
class LossScale:
    """The multiplier of a window's losses against underflow; never a statistical weight.

    Build one with `dynamic`, `static` or `none`. `after(finite)` follows torch.amp.GradScaler transition by transition,
    in its float32 arithmetic, until [min, max] binds: an overflow multiplies by `backoff`; `interval` completed attempts
    in a row multiply by `growth`, unless the product leaves float32. It never becomes 0, inf, NaN or negative.

    >>> scale = LossScale.dynamic(init=1024.0, interval=2)
    >>> scale.after(finite=False).value
    512.0
    >>> scale.after(finite=True).after(finite=True).value
    2048.0
    """

    kind: Literal["dynamic", "static", "none"]
    value: float
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000
    min: float = 2.0**-16
    max: float | None = None
    """None: the largest that float32 holds."""
    growth_count: int = 0
    """Completed attempts since the scale last changed."""

    @staticmethod
    def dynamic(
        init: float = 2.0**16,
        *,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
        min: float = 2.0**-16,
        max: float | None = None,
    ) -> LossScale:
        """A scale that halves on a curable overflow and doubles after `interval` completed attempts.

        The defaults are torch.amp.GradScaler's, with a floor of 2^-16, where torch's scale goes on to 0 and its next step
        writes 0/0 into the weights. PolicyError where the numbers cannot be a scale.
        """
        return LossScale(kind="dynamic", value=init, growth=growth, backoff=backoff, interval=interval, min=min, max=max)

    @staticmethod
    def static(value: float) -> LossScale:
        """A scale that never moves."""
        return LossScale(kind="static", value=value, min=value)

    @staticmethod
    def none() -> LossScale:
        """No scaling: the constant 1."""
        return LossScale(kind="none", value=1.0, min=1.0)

    def __post_init__(self) -> None:
        """Validate once, so that `after` never has to."""
        if self.kind not in ("dynamic", "static", "none"):
            raise PolicyError(f"no loss scale is called {self.kind!r}", hint="build one by LossScale.dynamic, static or none")
        for name in ("value", "growth", "backoff", "min", "max"):
            number = getattr(self, name)
            if not isinstance(number, (int, float)) and not (name == "max" and number is None):
                raise PolicyError(
                    f"a loss scale's {name} is a number, and this is a {type(number).__name__}", hint="give a float"
                )
        upper = math.inf if self.max is None else self.max
        if not (2.0**-126 <= self.value < math.inf and _float32(self.value) == self.value):
            raise PolicyError(
                f"a loss scale of {self.value} is not exactly a normal float32 number above 0",
                hint="use a power of two between 2.0**-126 and 2.0**127, such as 2.0**16: scaling by it is exact",
                value=self.value,
            )
        if not 2.0**-126 <= self.min <= self.value <= upper or _float32(self.min) != self.min or _float32(upper) != upper:
            raise PolicyError(
                "a loss scale has to lie between its limits, and these to be normal float32 numbers",
                hint="choose 2**-126 <= min <= init <= max",
                min=self.min,
                value=self.value,
                max="float32's" if self.max is None else self.max,
            )
        if not (1.0 < self.growth < math.inf and 0.0 < self.backoff < 1.0 and self.interval >= 1):
            raise PolicyError(
                "a dynamic loss scale needs growth > 1, 0 < backoff < 1 and interval >= 1",
                hint="the defaults are growth=2.0, backoff=0.5, interval=2000",
                growth=self.growth,
                backoff=self.backoff,
                interval=self.interval,
            )

    def after(self, *, finite: bool) -> LossScale:
        """The scale for the next attempt, after one whose gradients were `finite` or overflowed.

        Called for completed attempts and for overflows that a smaller scale can cure; for no other skip.
        """
        if self.kind != "dynamic":
            return self
        if not finite:
            return replace(self, value=max(_float32(self.value * self.backoff), self.min), growth_count=0)
        if self.growth_count + 1 < self.interval:
            return replace(self, growth_count=self.growth_count + 1)
        grown = _float32(self.value * self.growth)
        if self.max is not None:
            grown = min(grown, self.max)
        return replace(self, value=grown if math.isfinite(grown) else self.value, growth_count=0)

    @property
    def lowest(self) -> float:
        """The lowest scale that is permitted: what a gradient has to overflow at too, if no scale is to help."""
        return self.min if self.kind == "dynamic" else min(self.value, 1.0)

    @property
    def can_shrink(self) -> bool:
        """Whether an overflow would make the next scale smaller."""
        return self.kind == "dynamic" and self.value > self.min


def _float32(number: float) -> float:
    """`number` rounded to the nearest float32, infinite beyond its range: the arithmetic of GradScaler's tensor."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.inf
