"""Numbers made of gradients that still carry the loss scale, followed until they leave the tensors or become a penalty."""

from __future__ import annotations

import math
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from truestep.audit.events import GradientRead, PenaltyInScaledUnits
from truestep.audit.site import Site
from truestep.audit.trace.units import POWERS, Kind, power, words

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher

Of = Literal["gradient", "clip", "loss", "penalty"]

MATCHES = 1e-3
"""Relative difference of a number from 1 / scale that still makes it the unscaling."""

SMALL = 1e-2
"""Up to this an added number is an epsilon."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Taint:
    """What is known of a tensor in units of the loss scale."""

    factor: float
    """How many times too large it is."""
    of: Of = "gradient"
    bent: Site | None = None
    """Where it was put through something that is not linear."""
    made: Site | None = None
    """The clip that gave it."""
    mixed: bool = False
    """Something in other units was added to it."""
    decided: bool = False
    """It is a choice made in these units, such as a mask; it has no units itself."""
    bounded: bool = False
    """Something that is no gradient has a part in its size, as a limit has."""


class Taints:
    """By what factor a tensor is too large, as long as it lives."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._known: MutableMapping[Tensor, Taint] = WeakIdKeyDictionary()
        self._told: set[tuple[str, int]] = set()

    def __bool__(self) -> bool:
        """Whether anything is followed."""
        return len(self._known) > 0

    def mark(self, tensors: Iterable[Tensor], factor: float, of: Of = "gradient", made: Site | None = None) -> None:
        """These are `factor` times what they are called."""
        for tensor in tensors:
            if math.isclose(factor, 1.0, rel_tol=MATCHES):
                self._known.pop(tensor, None)
            else:
                self._known[tensor] = Taint(factor=factor, of=of, made=made)

    def factor(self, tensor: Any) -> float | None:
        """How many times too large a tensor is; None where nothing is known of it."""
        known = self._of(tensor)
        return None if known is None else known.factor

    def follow(self, name: str, given: list[Any], result: list[Any]) -> None:
        """What one operation makes of the factors."""
        known = [taint for each in given if (taint := self._of(each)) is not None]
        if not known:
            return
        kind, tensor = words(name), next(each for each in given if self._of(each) is not None)
        if kind == "leaves":
            if not known[0].decided:
                self._left(name, tensor, known[0])
            return
        made = self._made(name, kind, known, given)
        for each in result:
            if isinstance(each, Tensor) and (each is not tensor or kind in ("adds", "products", "powers")):
                if made is None or (not made.decided and math.isclose(made.factor, 1.0, rel_tol=MATCHES)):
                    self._known.pop(each, None)
                else:
                    self._known[each] = made

    def entered(self, outputs: Any) -> None:
        """A loss goes through a scaler: what of it is still in scaled units is scaled once more."""
        taint = self._of(outputs)
        if taint is not None and taint.of == "gradient" and not taint.decided and outputs.requires_grad:
            self._penalty("scale", taint)

    def commutes(self, name: str, given: list[Any], carried: float) -> bool | None:
        """Whether an edit of gradients that carry a scale is the same after an unscaling; None where it is not known."""
        kind, others = words(name), self._others(name, given)
        taints = [self._of(each) for each in others]
        if any(taint is not None and (taint.decided or taint.mixed) for taint in taints):
            return False
        if kind == "adds":
            if not others:
                return False if any(_is_number(each) and abs(each) > 0 for each in given[1:]) else None
            return all(taint is not None and _same(taint.factor, carried) for taint in taints)
        if kind == "products":
            return all(taint is None for taint in taints)
        if kind in ("powers", "bends"):
            return False
        return None

    def reshapes(self, name: str, given: list[Any]) -> bool:
        """Whether an edit multiplies gradients by a choice made of them, or by a number made of them alone."""
        taints = [taint for each in self._others(name, given) if (taint := self._of(each)) is not None]
        if any(taint.decided for taint in taints):
            return True
        return words(name) == "products" and any(not taint.bounded for taint in taints)

    def _others(self, name: str, given: list[Any]) -> list[Tensor]:
        """The tensors that gradients are edited with; of an operation on lists, the list that is written stands among them."""
        others = [each for each in given[1:] if isinstance(each, Tensor)]
        if name.startswith("_foreach"):
            others = [each for each in others if not self._watcher.operations.edits.is_gradient(each)]
        return others

    def _of(self, tensor: Any) -> Taint | None:
        return self._known.get(tensor) if isinstance(tensor, Tensor) else None

    def _made(self, name: str, kind: Kind, known: list[Taint], given: list[Any]) -> Taint | None:  # noqa: PLR0911 - one line for each kind
        first, here = known[0], self._watcher.recorder.site
        if kind == "compares":
            bare = [
                each for each in given if self._of(each) is None and (isinstance(each, Tensor) or (_is_number(each) and each))
            ]
            return Taint(factor=1.0, decided=True) if bare and not first.decided else None
        if any(taint.decided for taint in known):
            rest = next((taint for taint in known if not taint.decided), first)
            return replace(rest, decided=True) if kind in ("keeps", "products", "chooses", "adds") else None
        if kind in ("keeps", "chooses"):
            return first
        if kind == "adds":
            return self._added(name, known, given)
        if kind == "products":
            return self._product(name, given)
        if kind == "powers":
            exponent = power(name, given)
            return (
                replace(first, factor=float(first.factor**exponent), bent=first.bent or here())
                if name.strip("_") in POWERS
                else None
            )
        if kind == "bends" and first.of == "gradient" and any(self._of(each) and each.requires_grad for each in given):
            self._penalty(name, first)
        return None

    def _added(self, name: str, known: list[Taint], given: list[Any]) -> Taint | None:
        tensors = [each for each in given if isinstance(each, Tensor)]
        numbers = [each for each in given if _is_number(each)] if len(tensors) == 1 else []
        bare = [each for each in tensors if self._of(each) is None and not _zero(each)]
        apart = (
            bool(bare)
            or any(abs(each) > SMALL for each in numbers)
            or len({round(math.log2(taint.factor), 2) for taint in known}) > 1
        )
        graph = any(self._of(each) is not None and each.requires_grad for each in tensors)
        if apart and graph and known[0].of == "gradient":
            self._penalty(name, known[0])
            return None
        if apart and known[0].of == "loss":
            return None
        return replace(known[0], mixed=known[0].mixed or apart)

    def _product(self, name: str, given: list[Any]) -> Taint:
        """The first one's factor times or over the second's; a bare number that is the scale or one over it takes it away."""
        operands = [each for each in given if isinstance(each, Tensor) or _is_number(each)][:2]
        if "rtruediv" in name:
            operands.reverse()
        divides = "div" in name
        known = [self._of(each) for each in operands]
        taint = next(each for each in known if each is not None)
        factors = [1.0 if each is None else each.factor for each in known] + [1.0]
        made = factors[0] / factors[1] if divides else factors[0] * factors[1]
        bare = next((each for each, one in zip(operands, known, strict=True) if one is None), None)
        if bare is not None and _single(bare):
            value = float(bare.detach() if isinstance(bare, Tensor) else bare)
            by = (1 / value if value else 0.0) if divides and operands[0] is not bare else value
            if math.isclose(by * made, 1.0, rel_tol=MATCHES):
                made = 1.0
        bent = taint.bent or (self._watcher.recorder.site() if None not in known and len(known) > 1 else None)
        return replace(taint, factor=made, bent=bent, bounded=taint.bounded or bare is not None)

    def _left(self, name: str, tensor: Tensor, taint: Taint) -> None:
        site = self._watcher.recorder.site()
        if site is None or not tensor.numel() or not self._watcher.recorder.judging:
            return
        value = float(tensor.detach() if tensor.numel() == 1 else tensor.detach().abs().max())
        of: Of = "penalty" if tensor.requires_grad and taint.of == "gradient" else taint.of
        self._watcher.recorder.emit(
            GradientRead, site=site, value=value, carried=taint.factor, operation=name.strip("_"), of=of, made=taint.made
        )

    def _penalty(self, name: str, taint: Taint) -> None:
        site = taint.bent or self._watcher.recorder.site()
        key = (site.path, site.line) if site is not None else ("", 0)
        if key not in self._told:
            self._told.add(key)
            self._watcher.recorder.emit(PenaltyInScaledUnits, site=site, scale=taint.factor, operation=name.strip("_"))


def constant(tensors: Any) -> float | None:
    """The one number that tensors hold in all their elements; None where they hold several, or none."""
    held = [tensors] if isinstance(tensors, Tensor) else [each for each in tensors or () if isinstance(each, Tensor)]
    values = {float(each) for tensor in held if tensor.numel() for each in torch.aminmax(tensor.detach().float())}
    return values.pop() if len(values) == 1 else None


def _same(factor: float, carried: float) -> bool:
    """The same scale, or the one that it was before it moved by a power of two."""
    powers = math.log2(factor / carried)
    return math.isclose(powers, round(powers), abs_tol=MATCHES) and factor != 1.0


def _zero(tensor: Tensor) -> bool:
    return not bool(tensor.detach().any())


def _single(value: Any) -> bool:
    return _is_number(value) or (isinstance(value, Tensor) and value.numel() == 1 and not value.requires_grad)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
