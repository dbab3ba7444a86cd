"""Gradients: backwards, and all that is done to what they leave until a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from truestep.audit.events.event import Event
from truestep.audit.events.values import Divisor, Share
from truestep.audit.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Backward(Event):
    """One backward that reached parameters of optimizers (`touched`), or none."""

    number: int
    scaler: int | None
    scale: float
    """The loss scale that the root carries; 1 without one."""
    carried: Literal["all", "none", "part"]
    """Whether all of the root went through the scaler, nothing of it, or a part."""
    touched: tuple[int, ...]
    kept: tuple[int, ...]
    """Of those, the optimizers whose gradients stood there before, and were added to."""
    loss: float | None
    """In original units; None where the root is no scalar."""
    finite: bool | None
    """Whether the gradients are; None where it was not looked."""
    norm: float | None
    """Of all gradients after it, in the units they are in; None where it was not looked."""
    share: Share | None
    unread: str | None
    """Why there is no share."""
    divided: Site | None
    """The last line that multiplied or divided the loss by a number, where there is one."""
    forward: Site | None
    """The last line that called the outermost module."""
    forwards: int
    """How many calls of outermost modules there were since the last backward."""
    low: str | None
    """The dtype of the autocast regions since the last backward; None without any."""
    inside_autocast: bool
    synced: bool | None
    """Whether DDP averages the gradients over the ranks; None without DDP."""
    examples: int | None
    """The first dimension of the first input of the forward's outermost module."""
    tokens: int | None
    """The number of elements of that input where it holds integers; else None."""
    elsewhere: tuple[int, ...] = ()
    """Of those kept, the optimizers all of whose weights had moved since the backward before, which was to look around."""
    zeroed: Site | None = None
    """The last line that cleared gradients since the last backward."""
    parts: tuple[Share, ...] = ()
    """The shares of all terms of the loss, `share` first."""
    ranks: int = 1
    """The processes that train together."""
    unsynced: tuple[int, ...] = ()
    """The optimizers it reached whose gradients a DDP holds, and was told not to average."""
    unsynced_at: Site | None = None
    """The line that told it so last."""
    computed: Site | None = None
    """The last line of the user's own that made a scalar of the loss, though a library went on with it."""
    divisors: tuple[Divisor, ...] = ()
    """The numbers that the loss was divided by, the last first."""
    reached: int | None = None
    """Stands for the set of parameters whose gradients it wrote; None where it was not looked."""
    zeros: float | None = None
    """The share of elements of its gradients that are zero, of a float16 region without a scale; None where it was not looked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientTaken(Event):
    """`torch.autograd.grad`, which gives gradients and leaves none in the parameters."""

    scale: float
    create_graph: bool
    of_parameters: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class PenaltyInScaledUnits(Event):
    """A gradient that still carried the loss scale was put through something that is not linear, and entered a loss."""

    scale: float
    operation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut(Event):
    """A graph was cut, or a leaf was made that no optimizer knows, before any backward had reached some optimizer."""

    how: Literal["detached", "no_grad", "rebuilt", "frozen"]
    optimizers: tuple[int, ...]
    """Those whose parameters lie behind the cut; empty where a leaf was made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Unscaled(Event):
    """A scaler divided an optimizer's gradients by its scale."""

    scaler: int
    optimizer: int
    scale: float
    found_inf: bool
    inside: bool
    """Called by the scaler's own step, not by the user."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Clipped(Event):
    """Gradients were clipped, or a clip was refused because they are not finite."""

    how: Literal["norm", "value", "hand"]
    limit: float | None
    norm: float | None
    """What the clip measured; None for a clip by value."""
    optimizers: tuple[int, ...]
    carried: float
    """The loss scale that the gradients carried."""
    factor: float | None
    """What it made of the gradients' norm; None where it was not looked."""
    finite: bool | None
    strict: bool
    """`error_if_nonfinite`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Edited(Event):
    """Gradients were written between their backward and the step, by none of torch's own."""

    operation: str
    optimizers: tuple[int, ...]
    carried: float
    ratio: float | None
    cosine: float | None
    hid: bool
    """They were not finite before, and are now."""
    reduced: bool = False
    """By a reduction over the ranks."""
    commutes: bool | None = None
    """Whether it gives the same after an unscaling as before one; None where that is not known."""
    reshapes: bool = False
    """It multiplied them by a mask that was made of them, or by a number made of them alone, as a normalising does: no clip."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GradientRead(Event):
    """A number made of gradients that carried the loss scale left the tensors: for a log, a limit, a decision."""

    value: float
    carried: float
    operation: str
    of: Literal["gradient", "clip", "loss", "penalty"] = "gradient"
    """What it was made of: gradients, the norm that a clip returned, a scaled loss, or gradients of a second graph."""
    made: Site | None = None
    """The call that gave it, where that is a clip's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Zeroed(Event):
    """Gradients of backwards that no step had used are gone; the site is that of the last zero_grad, if there was one."""

    optimizer: int
    dropped: tuple[int, ...]
    """The backwards, by number."""
    weights_moved: bool | None = False
    """The weights were written since the last of them, as where a gradient is used for a look around and not for a step.

    None where it was not looked.
    """


@dataclass(frozen=True, kw_only=True, slots=True)
class Reduced(Event):
    """The script reduced something over the ranks itself."""

    what: Literal["gradient", "weights", "number", "loss", "other"]
    """`loss`: before its backward, which then reduces once more; `number`: a single one, as of a decision."""
    operation: str
    ranks: int
    optimizers: tuple[int, ...]
    """Those whose gradients were waiting for their step."""
    given: float
    """The norm of what this rank gave, in original units; of a loss d(root) / d(it)."""
    made: float | None
    """The norm of what came of it; None where it was not looked."""
