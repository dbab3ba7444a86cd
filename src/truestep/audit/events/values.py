"""What events carry: a loss's weight, a gradient beside the right one, a damage."""

from __future__ import annotations

from dataclasses import dataclass

from truestep.audit.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What a loss gives each of its elements, read off its graph before backward, in original units."""

    weight: float
    """d(root) / d(loss of one element); equal weights are what accumulation needs."""
    elements: float
    """How many elements have a part in it: scored tokens, or what a mean divides by."""
    node: str
    """The reduction, as autograd names it."""
    divisors: tuple[float, ...] = ()
    """What its mean or sum was divided by afterwards, number by number; the inverse of what it was multiplied by."""
    multiplied: tuple[float, ...] = ()
    """Those of them that are such an inverse, which may be a coefficient of the loss as well."""
    summed: bool = False
    """It is a sum, of which any divisor may be meant to make a mean."""
    joined: int = 1
    """The equal means of which it was put together, each divided by their number, whatever was meant by that."""
    alike: int = 1
    """The terms of the loss that weigh as much, itself among them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Divisor:
    """A number that a loss was divided by, and where; the inverse of one that it was multiplied by."""

    number: float
    site: Site | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """The gradient that reached an optimizer beside the one that should have: the sum of its backwards, each by its own scale."""

    expected: float
    """The norm of the right gradient, before any clip."""
    observed: float
    """The norm of the gradient that the optimizer was given."""
    cosine: float | None
    """Between the two; None where one of them is zero."""
    clipped: float
    """The factor by which a clip in original units made the right gradient shorter; 1 without one."""

    @property
    def ratio(self) -> float:
        """Observed over right, the clip included; infinity where the right one is zero."""
        right = self.expected * self.clipped
        return self.observed / right if right else (1.0 if not self.observed else float("inf"))

    def agrees(self, tolerance: float) -> bool:
        """Whether length and direction agree; `tolerance` is relative, for either."""
        if self.cosine is None:
            return self.ratio == 1.0
        return abs(self.ratio - 1) <= tolerance and 1 - self.cosine <= tolerance


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if 1000 <= ratio < 1e12 else f"{ratio:.3g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """What a wrong gradient did to the update, by a step with the right one from the same state, which was taken back."""

    wrong: float
    """The norm of the update that was made."""
    right: float
    """The norm of the update that the right gradient makes."""
    cosine: float | None

    def __str__(self) -> str:
        """In words."""
        if not self.right or not self.wrong:
            size = f"the update was {self.wrong:.3g} long where {self.right:.3g} is right"
        elif abs(self.wrong / self.right - 1) < 0.01:
            size = "the update was as long as the right one"
        elif self.wrong < self.right:
            size = f"the update was {_times(self.right / self.wrong)} times too small"
        else:
            size = f"the update was {_times(self.wrong / self.right)} times too large"
        return size + ("" if self.cosine is None else f", its cosine to the right one is {self.cosine:.3f}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """How many elements of low-precision parameters a completed update moved, of those whose gradient is not zero."""

    dtype: str
    moved: int
    asked: int
