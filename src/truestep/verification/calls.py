"""What each module was given and put out in a forward, kept by hooks; and whether split forwards did what the joined one did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from truestep.probe.tree import leaves

ROUNDING = 2.0**-12
"""The relative difference, in norm, that rounding explains: of 4096 products added in float32, in any order."""

Values = tuple[Tensor, ...]


@dataclass
class Call:
    """One call of one module."""

    module: str
    number: int
    """Which call of this module it is, for a module may be called twice."""
    given: Values
    put_out: Values = ()

    @property
    def key(self) -> tuple[str, int]:
        """What the same call of another forward has too."""
        return self.module, self.number


@dataclass
class Calls:
    """The calls of one forward, in the order in which they ended."""

    ended: list[Call] = field(default_factory=list)
    _open: list[Call] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    def begin(self, module: str, given: Any) -> None:
        """A module is called."""
        self._open.append(Call(module, self._counts[module], _values(given)))
        self._counts[module] += 1

    def end(self, module: str, put_out: Any) -> None:
        """It returns. A call that an exception left is forgotten."""
        while self._open and self._open[-1].module != module:
            self._open.pop()
        if self._open:
            call = self._open.pop()
            call.put_out = _values(put_out)
            self.ended.append(call)

    def by_key(self) -> dict[tuple[str, int], Call]:
        """Each call by its module and number."""
        return {call.key: call for call in self.ended}


@contextmanager
def watched(model: nn.Module) -> Iterator[Calls]:
    """The calls of the modules of `model` inside; no hook is left behind. The model itself goes by the name of ""."""
    calls, handles = Calls(), []
    try:
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(_begins(calls, name), with_kwargs=True))
            handles.append(module.register_forward_hook(_ends(calls, name)))
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _begins(calls: Calls, name: str) -> Any:
    return lambda _module, args, kwargs: calls.begin(name, (args, kwargs))


def _ends(calls: Calls, name: str) -> Any:
    return lambda _module, _args, put_out: calls.end(name, put_out)


def _values(tree: Any) -> Values:
    """Copies of the floating-point tensors in `tree`. What is packed is left out, for its rows stand in another order."""
    found = (leaf for _, leaf in leaves(tree) if isinstance(leaf, Tensor)) if not isinstance(tree, PackedSequence) else ()
    return tuple(leaf.detach().clone() for leaf in found if leaf.is_floating_point() and leaf.layout is torch.strided)


def agree(joined: Values, splits: Sequence[Values], shares: Sequence[float]) -> bool | None:
    """Whether what the splits have, put together, is what the joined forward has; None where that cannot be told."""
    if any(len(split) != len(joined) for split in splits):
        return None
    verdicts = [_agrees(whole, [split[index] for split in splits], shares) for index, whole in enumerate(joined)]
    return False if False in verdicts else None if None in verdicts else True


def _agrees(whole: Tensor, parts: list[Tensor], shares: Sequence[float]) -> bool | None:
    """Rows put together along any dimension; without one for the batch, the same value, or the sum or weighted mean of theirs."""
    if all(part.shape == whole.shape for part in parts):
        mean = sum(share * part.double() for share, part in zip(shares, parts, strict=True))
        means = [mean, sum(part.double() for part in parts)]
        return all(alike(whole, part) for part in parts) or any(alike(whole, each) for each in means)  # type: ignore[arg-type]
    for dimension in range(whole.dim()):
        rest = [*whole.shape[:dimension], *whole.shape[dimension + 1 :]]
        fits = all(part.dim() == whole.dim() for part in parts) and all(
            [*part.shape[:dimension], *part.shape[dimension + 1 :]] == rest for part in parts
        )
        if fits and sum(part.shape[dimension] for part in parts) == whole.shape[dimension]:
            return alike(whole, torch.cat(parts, dimension))
    return None


def alike(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors differ by no more than rounding, in norm. What is not finite stands in the same places."""
    if left.shape != right.shape:
        return False
    unit = max(torch.finfo(left.dtype).eps, torch.finfo(right.dtype).eps)
    left, right = left.double(), right.double()
    if not torch.equal(left.isfinite(), right.isfinite()):
        return False
    left, right = left.nan_to_num(0.0, 0.0, 0.0), right.nan_to_num(0.0, 0.0, 0.0)
    return float((left - right).norm()) <= max(ROUNDING, 16 * unit if unit > 1e-6 else 0.0) * float(
        torch.maximum(left.norm(), right.norm())
    )
