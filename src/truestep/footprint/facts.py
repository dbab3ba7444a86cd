"""What an update takes, as plain values: predicted from shapes, measured beside it, and beside other choices."""

from __future__ import annotations

from dataclasses import dataclass

from truestep.footprint.log import Attempts, Categories


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The same window under another policy or in other microbatches, predicted."""

    policy: str
    microbatches: int
    peak_bytes: int
    each: Categories


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a footprint holds; its report is of these."""

    subject: str
    """The task's name, or the model's class."""
    policy: str
    optimizer: str
    device: str
    microbatches: int
    parameters: int
    """Elements of all parameters, tied ones once."""
    frozen: int
    """Of them, elements that take no gradient, hence no moments."""
    predicted: Attempts | None
    not_predicted: str | None
    """Why there is no prediction; None where there is one."""
    untold: tuple[str, ...]
    """Of the model, what is not in the prediction, or not as large as it may be, in words."""
    workspaces_measured: int | None
    """Of how many convolutions and products of matrices, each of its own shapes, the workspace was measured alone, to be in the
    prediction; None off the CPU, where workspaces are not counted."""
    measured: Attempts | None
    not_measured: str | None
    """Why nothing was measured; None where it was."""
    beside: tuple[Beside, ...]
