"""How many parameters a backward reaches, and the graphs that would hide some of them from it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from truestep.errors import LossError
from truestep.probe.graph import holds


class Reach:
    """Refuses reentrant checkpoints, whose parameters a backward into given parameters never reaches.

    A graph is searched until a first attempt has reached parameters, and after that only where a window reaches fewer than
    another did: an ordinary attempt pays for no search.
    """

    def __init__(self) -> None:
        self._most = 0

    def look(self, losses: Sequence[Tensor]) -> None:
        """LossError for a reentrant checkpoint in the graph of a loss, before the first backward is judged."""
        if not self._most:
            for loss in losses:
                _demand_open_graph(loss)

    def judge(self, gradients: int, loss: Tensor | None) -> None:
        """LossError for one that hides parameters only now: `gradients` were reached, and `loss` is the window's last."""
        if gradients < self._most and loss is not None:
            _demand_open_graph(loss)
        self._most = max(self._most, gradients)


def _demand_open_graph(loss: Tensor) -> None:
    if holds(loss, "CheckpointFunctionBackward"):
        raise LossError(
            "the model checkpoints activations with use_reentrant=True, which hides its parameters from this backward",
            hint="use torch.utils.checkpoint.checkpoint(..., use_reentrant=False)",
        )
