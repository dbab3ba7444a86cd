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


def state_of(scale: LossScale, counts: Counts, *, seed: int | None) -> dict[str, Any]:
    """Strings, numbers and None only: it survives JSON and `torch.load(weights_only=True)`."""
    return {"schema": SCHEMA, "scale": dataclasses.asdict(scale), "counts": dataclasses.asdict(counts), "seed": seed}


def read_state(state: Mapping[str, Any], ours: LossScale, *, seed: int | None) -> tuple[LossScale, Counts]:
    """Scale and counts from what `state_of` gave; StateError for anything else, another kind of scale, or another seed.

    >>> state = state_of(LossScale.static(8.0), Counts(attempts=3, completed=3), seed=None)
    >>> read_state(state, LossScale.static(2.0), seed=None)[1].attempts
    3
    """
    with _refused():
        if state["schema"] != SCHEMA:
            raise StateError(
                f"this state has the schema {state['schema']!r}, and {SCHEMA} is read here",
                hint="load it with the version of truestep that wrote it",
            )
        scale, counts = LossScale(**state["scale"]), Counts(**state["counts"])
        _demand_kind(scale.kind, ours)
        for name, number in dataclasses.asdict(counts).items():
            _demand_whole(name, number)
        if state["seed"] != seed:
            raise StateError(
                f"this state drew by the seed {state['seed']}, and the update's policy draws by {seed}",
                hint="build the update with the policy and the seed that it was saved with",
            )
        return scale, counts


def read_grad_scaler(state: Mapping[str, Any], scale: LossScale) -> LossScale:
    """`scale`, which is dynamic, moved to where a GradScaler stood, with its factors; StateError for anything else.

    Limits stay `scale`'s: a value below its floor, on GradScaler's way to 0, becomes the floor.

    >>> read_grad_scaler({"scale": 8.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 9,
    ...                   "_growth_tracker": 4}, LossScale.dynamic()).growth_count
    4
    """
    with _refused():
        _demand_kind("dynamic", scale)
        return dataclasses.replace(
            scale,
            value=max(float(state["scale"]), scale.min),
            growth=float(state["growth_factor"]),
            backoff=float(state["backoff_factor"]),
            interval=int(state["growth_interval"]),
            growth_count=int(state["_growth_tracker"]),
        )


def _demand_kind(saved: str, ours: LossScale) -> None:
    """A state says where a scale stood; whether there is one is for the update that it is loaded into."""
    if saved != ours.kind:
        raise StateError(
            f"this state is of a loss scale of the kind {saved!r}, and the update's is {ours.kind!r}",
            hint="build the update with the policy and the loss scale that it was saved with",
        )


def _demand_whole(name: str, number: Any) -> None:
    """The counts are whole numbers, by reason too; tokens may be None."""
    numbers = number.values() if isinstance(number, Mapping) else [number]
    may_be_none = name.startswith("tokens")
    if not all((n is None and may_be_none) or (type(n) is int and n >= 0) for n in numbers):
        raise StateError(f"this is no state of an update: its {name} is {number!r}", hint="pass what update.state_dict() gave")


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
