"""What may not be called while an attempt is open: somebody else's step, another attempt, a load."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch.optim import Optimizer

from truestep.errors import StateError

ATTEMPT = "an attempt of this update is open already"


class Guard:
    """Refuses calls that would go past an open attempt: somebody else's step, and an attempt or a load inside of it."""

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        self._closed: str | None = None
        guard = weakref.ref(self)

        def before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            alive = guard()
            if alive is not None and alive._closed is not None:
                raise StateError(
                    "the optimizer was stepped inside the attempt, with scaled gradients that nobody has checked",
                    hint="leave optimizer.step() out: leaving the block steps or skips",
                )

        for optimizer in optimizers:
            weakref.finalize(self, optimizer.register_step_pre_hook(before_step).remove)

    def demand_no_attempt(self) -> None:
        """StateError inside an attempt."""
        if self._closed == ATTEMPT:
            raise StateError(ATTEMPT, hint="leave its with block first")

    def __reduce_ex__(self, protocol: Any) -> Any:
        """StateError: a copied update would share hooks with, and masters of, what it was copied from."""
        raise StateError(
            "an update is not copied, nor pickled",
            hint="copy the model and build another update of it; update.state_dict() carries scale and counts over",
        )

    @contextmanager
    def closed(self, why: str = ATTEMPT) -> Iterator[None]:
        """Inside, no step passes; StateError for a second attempt inside the first, or inside whatever else closed it."""
        if self._closed is not None:
            raise StateError(self._closed, hint="leave its with block first")
        try:
            self._closed = why
            yield
        finally:
            self._closed = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Inside, the attempt's own step passes."""
        why, self._closed = self._closed, None
        try:
            yield
        finally:
            self._closed = why
