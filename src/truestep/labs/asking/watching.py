"""Watches a learner's loop from within what it is given: the calls of its scaler, the state after each window, what is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from truestep.labs.asking.milestones import Attempt
from truestep.verification.leftover import Leftover

if TYPE_CHECKING:
    from torch import nn


class Scaler(torch.amp.GradScaler):
    """torch's own, which notes what it was called for."""

    def __init__(self, scale: float, interval: int) -> None:
        super().__init__("cpu", init_scale=scale, growth_interval=interval)
        self.calls: list[str] = []

    def scale(self, outputs: Any) -> Any:
        """As torch's."""
        self.calls.append("scale")
        return super().scale(outputs)

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """As torch's."""
        self.calls.append("unscale_")
        super().unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """As torch's, which unscales where nobody has: that is no call of the loop's."""
        self.calls.append("step")
        count = len(self.calls)
        taken = super().step(optimizer, *args, **kwargs)
        del self.calls[count:]
        return taken

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """As torch's."""
        self.calls.append("update")
        super().update(new_scale)


class Watched(list[Any]):
    """The windows; going through them notes the state after each, and in which one something was left of the one before."""

    def __init__(self, windows: list[Any], model: nn.Module, scaler: Scaler) -> None:
        super().__init__(windows)
        self.model, self.scaler = model, scaler
        self.attempts: list[Attempt] = []
        self.left: list[int] = []
        """Counted from 0."""

    def __iter__(self) -> Iterator[Any]:
        """Each window, and after it what has changed."""
        for window in super().__iter__():
            before = weights(self.model)
            with Leftover(dict(self.model.named_parameters())) as left:
                yield window
            if left.gradients:
                self.left.append(len(self.attempts))
            self.attempts.append(Attempt(scale=self.scaler.get_scale(), moved=weights(self.model) != before))


def weights(model: nn.Module) -> tuple[float, ...]:
    """All of them."""
    return tuple(torch.cat([each.detach().flatten() for each in model.parameters()]).tolist())


def misplaced(calls: Sequence[str]) -> str | None:  # noqa: PLR0911 - a return for each mistake
    """Which call is missing or too many, where the scaler refused the last of `calls`; None where their order is not why.

    >>> misplaced(["scale", "unscale_", "step", "scale", "unscale_"]).partition(":")[0]
    'scaler.update() is missing'
    """
    if not calls:
        return None
    *earlier, last = calls
    since = earlier[len(earlier) - earlier[::-1].index("update") :] if "update" in earlier else earlier
    if "scale" not in calls:
        return f"the loss was not scaled: scaler.scale(...).backward() belongs before scaler.{last}"
    if last in ("unscale_", "step") and "step" in since:
        return (
            f"scaler.update() is missing: scaler.{last} came, and scaler.update() had not been called since the scaler.step "
            "before; it belongs once behind each scaler.step(optimizer), and a window has one of each"
        )
    if last == "unscale_" and "unscale_" in since:
        return "scaler.unscale_(optimizer) came twice in one window: it belongs once behind the window's last backward"
    if last == "update" and not {"step", "unscale_"} & set(since):
        if earlier[-1:] == ["update"]:
            return "scaler.update() came twice in a row: it belongs once behind each scaler.step(optimizer)"
        return (
            "scaler.update() came before scaler.step(optimizer), which is what it counts: it belongs once behind it, and not "
            "into a loop over microbatches"
        )
    return None
