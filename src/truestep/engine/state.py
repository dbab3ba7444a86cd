"""An update's own state as plain values, for a checkpoint: loss scale and counts. Also reads torch.amp.GradScaler's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from truestep.engine.counts import Counts
from truestep.engine.scale import LossScale
from truestep.errors import PolicyError, StateError

SCHEMA = 1


def state_of(scale: LossScale, counts: Counts) -> dict[str, Any]:
    """Strings, numbers and None only: it survives JSON and `torch.load(weights_only=True)`."""
    return {"schema": SCHEMA, "scale": dataclasses.asdict(scale), "counts": dataclasses.asdict(counts)}


def read_state(state: Mapping[str, Any]) -> tuple[LossScale, Counts]:
    """Scale and counts from what `state_of` gave; StateError for anything else.

    >>> read_state(state_of(LossScale.static(8.0), Counts(attempts=3, completed=3)))[1].attempts
    3
    """
    with _refused():
        if state["schema"] != SCHEMA:
            raise StateError(
                f"this state has the schema {state['schema']!r}, and {SCHEMA} is read here",
                hint="load it with the version of truestep that wrote it",
            )
        return LossScale(**state["scale"]), Counts(**state["counts"])


def read_grad_scaler(state: Mapping[str, Any], scale: LossScale) -> LossScale:
    """`scale` moved to where a GradScaler stood, with its factors, and dynamic from then on; StateError for anything else.

    Limits stay `scale`'s: a value below its floor, on GradScaler's way to 0, becomes the floor.

    >>> read_grad_scaler({"scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 9,
    ...                   "_growth_tracker": 4}, LossScale.dynamic()).growth_count
    4
    """
    with _refused():
        return dataclasses.replace(
            scale,
            kind="dynamic",
            value=max(float(state["scale"]), scale.min),
            growth=float(state["growth_factor"]),
            backoff=float(state["backoff_factor"]),
            interval=int(state["growth_interval"]),
            growth_count=int(state["_growth_tracker"]),
        )


@contextmanager
def _refused() -> Iterator[None]:
    """What is missing, of another kind, or no loss scale, as a StateError."""
    try:
        yield
    except (KeyError, TypeError, ValueError, PolicyError) as error:
        why = error.summary if isinstance(error, PolicyError) else f"{type(error).__name__}: {error}"
        raise StateError(
            f"this is no state of an update: {why}",
            hint="pass what update.state_dict() gave, or torch.amp.GradScaler's state_dict()",
        ) from error
