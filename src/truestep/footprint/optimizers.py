"""What optimizers keep for a parameter, and what a pass of theirs needs for a while: bytes in float32."""

from __future__ import annotations

from dataclasses import dataclass

from truestep.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class OptimizerBytes:
    """Bytes for one parameter in float32; of the fused and the for-loop pass only what grows with all parameters."""

    name: str
    moments: int
    """What stays between two updates."""
    foreach: int
    """Copies of the gradient's size that the `foreach` pass makes of all parameters at once (torch's default on CUDA). The
    for-loop makes the same of one parameter after another, a fused kernel makes none."""
    note: str | None = None


OPTIMIZERS = {
    each.name: each
    for each in (
        OptimizerBytes(name="sgd", moments=0, foreach=0),
        OptimizerBytes(name="sgd-momentum", moments=4, foreach=0),
        OptimizerBytes(name="adam", moments=8, foreach=4),
        OptimizerBytes(name="adamw", moments=8, foreach=4),
        OptimizerBytes(name="adamw-amsgrad", moments=12, foreach=4),
        OptimizerBytes(name="nadam", moments=8, foreach=4),
        OptimizerBytes(name="radam", moments=8, foreach=4),
        OptimizerBytes(name="adamax", moments=8, foreach=4),
        OptimizerBytes(name="adadelta", moments=8, foreach=8),
        OptimizerBytes(name="adagrad", moments=4, foreach=8),
        OptimizerBytes(name="rmsprop", moments=4, foreach=4),
        OptimizerBytes(name="lion", moments=4, foreach=4, note="no optimizer of torch; one momentum, as lion-like ones keep"),
        OptimizerBytes(name="muon", moments=4, foreach=0, note="of matrices; torch's takes no other parameters"),
        OptimizerBytes(
            name="adafactor",
            moments=0,
            foreach=0,
            note="keeps 4 bytes for each row and each column of a matrix and 4 for each element of a vector: "
            "next to nothing for large matrices, and counted as 0 here",
        ),
    )
}
"""Each optimizer as its defaults have it. Weight decay of a kind that is added to the gradient takes 4 more for a while."""


def optimizer_bytes(name: str) -> OptimizerBytes:
    """The optimizer of that name; UsageError, with the names there are, for any other.

    >>> optimizer_bytes("adamw").moments
    8
    """
    found = OPTIMIZERS.get(name.lower().replace("_", "-"))
    if found is None:
        raise UsageError(f"no optimizer is called {name!r}", hint=f"choose one of: {', '.join(OPTIMIZERS)}", asked=name)
    return found
