"""What is seen of a training loop: each call that an update is made of, and the numbers beside it, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from truestep.audit.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """What a loss gives each of its elements, read off its graph before backward, in original units."""

    weight: float
    """d(root) / d(loss of one element); equal weights are what accumulation needs."""
    elements: float
    """How many elements have a part in it: scored tokens, or what a mean divides by."""
    node: str
    """The reduction, as autograd names it."""
    divisors: tuple[float, ...] = ()
    """What its mean or sum was divided by afterwards, number by number; the inverse of what it was multiplied by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Divisor:
    """A number that a loss was divided by, and where; the inverse of one that it was multiplied by."""

    number: float
    site: Site | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """The gradient that reached an optimizer beside the one that should have: the sum of its backwards, each by its own scale."""

    expected: float
    """The norm of the right gradient, before any clip."""
    observed: float
    """The norm of the gradient that the optimizer was given."""
    cosine: float | None
    """Between the two; None where one of them is zero."""
    clipped: float
    """The factor by which a clip in original units made the right gradient shorter; 1 without one."""

    @property
    def ratio(self) -> float:
        """Observed over right, the clip included; infinity where the right one is zero."""
        right = self.expected * self.clipped
        return self.observed / right if right else (1.0 if not self.observed else float("inf"))

    def agrees(self, tolerance: float) -> bool:
        """Whether length and direction agree; `tolerance` is relative, for either."""
        if self.cosine is None:
            return self.ratio == 1.0
        return abs(self.ratio - 1) <= tolerance and 1 - self.cosine <= tolerance


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if 1000 <= ratio < 1e12 else f"{ratio:.3g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """What a wrong gradient did to the update, by a step with the right one from the same state, which was taken back."""

    wrong: float
    """The norm of the update that was made."""
    right: float
    """The norm of the update that the right gradient makes."""
    cosine: float | None

    def __str__(self) -> str:
        """In words."""
        if not self.right or not self.wrong:
            size = f"the update was {self.wrong:.3g} long where {self.right:.3g} is right"
        elif abs(self.wrong / self.right - 1) < 0.01:
            size = "the update was as long as the right one"
        elif self.wrong < self.right:
            size = f"the update was {_times(self.right / self.wrong)} times too small"
        else:
            size = f"the update was {_times(self.wrong / self.right)} times too large"
        return size + ("" if self.cosine is None else f", its cosine to the right one is {self.cosine:.3f}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """How many elements of low-precision parameters a completed update moved, of those whose gradient is not zero."""

    dtype: str
    moved: int
    asked: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that the loop did; `order` counts them over the run."""

    order: int
    site: Site | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalerMade(Event):
    """A loss scaler was made."""

    scaler: int
    asked: bool
    """The `enabled` it was given."""
    enabled: bool
    """Whether it is: torch switches a scaler off where its device is missing."""
    device: str
    scale: float
    growth_interval: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerMade(Event):
    """An optimizer was made, or seen first."""

    optimizer: int
    kind: str
    fused: bool
    parameters: int
    lr: float
    eps: float | None
    momentum: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LowParameters(Event):
    """Parameters that an optimizer steps are kept in a low precision; the site is where they were made so."""

    optimizer: int
    dtype: str
    parameters: int


@dataclass(frozen=True, kw_only=True, slots=True)
class OddGradients(Event):
    """An optimizer was given gradients that a scaler cannot unscale; the site is where their parameters were made so."""

    optimizer: int
    what: Literal["complex", "sparse float16"]
    parameters: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut(Event):
    """A graph was cut, or a leaf was made that no optimizer knows, before any backward had reached some optimizer."""

    how: Literal["detached", "no_grad", "rebuilt", "frozen"]
    optimizers: tuple[int, ...]
    """Those whose parameters lie behind the cut; empty where a leaf was made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SchedulerMade(Event):
    """A schedule of learning rates was made."""

    scheduler: int
    kind: str
    optimizer: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Autocast(Event):
    """A region was entered that is none of torch's own; regions of the same site are told once for each setting."""

    device: str
    dtype: str
    enabled: bool
    outer: str | None
    """The dtype of the region around it; None where there is none, or one that is off."""
    asked: bool | None = None
    """The `enabled` it was given: torch switches a region off where its device is missing; None where that is not known."""


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
class StepCalled(Event):
    """`scaler.step(optimizer)`, as it begins."""

    scaler: int
    optimizer: int
    closure: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Stepped(Event):
    """An attempt ended: the optimizer's own step, or the scaler's without one."""

    optimizer: int
    scaler: int | None
    """None where the optimizer was stepped directly."""
    completed: bool
    """Whether the optimizer's state advanced."""
    closure: bool
    """It was given a closure, and did not call it just once."""
    fused: bool
    lr: float
    backwards: tuple[int, ...]
    """The backwards since its last attempt whose gradients it was given, by number."""
    dropped: tuple[int, ...]
    """Those whose gradients were gone by then."""
    carried: float
    """The loss scale that its gradients still carried when it used them; 1 is right."""
    finite: bool | None
    """Whether its gradients were; None where it was not looked."""
    judged: Judged | None
    """None where the window was not judged."""
    damage: Damage | None
    moved: Moved | None
    first: bool
    """The optimizer's first attempt."""
    bare: bool = False
    """None of its parameters had a gradient."""
    unset: bool = False
    """It has momentum, and before this attempt there was none of it yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Updated(Event):
    """A scaler was told to move its scale."""

    scaler: int
    before: float
    after: float
    by_hand: bool
    """Called with a new scale."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ticked(Event):
    """A schedule was moved on."""

    scheduler: int
    kind: str
    optimizer: int
    number: int
    """Which tick of the scheduler it is, from 1."""
    attempts: int
    """Attempts of its optimizer since its last tick, or since it was made."""
    completed: int
    backwards: int
    metric: bool
    """Called with a metric or an epoch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Averaged(Event):
    """A moving average of the weights moved."""

    average: int
    by_hand: bool
    dtype: str
    number: int
    attempts: int
    completed: int
    asked: int
    """Elements of it that differ from the weights before; 0 where it was not looked."""
    moved: int
    backwards: int | None = None
    """Backwards since its last move, or since the run began."""
    made: Site | None = None
    """Where it was made low in precision; None where it is not, or that was not seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rewritten(Event):
    """The script itself multiplied weights, outside of an optimizer's step and before the next backward."""

    operation: str
    optimizer: int
    ratio: float
    """What the norm of the first of them was multiplied by."""
    attempts: int
    """Attempts of the optimizer since the line did so before, or since the run began."""
    completed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved(Event):
    """`torch.save`: how many states of each kind it holds, and the backwards that no step had used by then."""

    models: int
    optimizers: int
    scalers: int
    schedulers: int
    open: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded(Event):
    """`torch.load`, likewise."""

    models: int
    optimizers: int
    scalers: int
    schedulers: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored(Event):
    """`load_state_dict` of an optimizer, a scaler or a scheduler."""

    what: Literal["optimizer", "scaler", "scheduler"]
    which: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Overflowed(Event):
    """The first operation of a forward, or of a loss, whose result is not finite though all that it was given is."""

    operation: str
    module: str | None
    """The module's name and kind; None outside of all."""
    dtype: str
    largest: float | None
    """The largest magnitude of the same operation's result in float32; None where that could not be had."""
    in_loss: bool
    """Outside of all modules, or in one without parameters."""
    negative: bool = False
    """All that is not finite is minus infinity, as in a mask."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Poisoned(Event):
    """Buffers that a forward wrote are not finite, though its attempt was skipped or never made; the site is the forward's."""

    module: str
    buffers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Healed(Event):
    """By the next backward the buffers of a module that was told as poisoned are finite again."""

    module: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Unsafe(Event):
    """An operation under autocast that CUDA refuses there."""

    operation: str
    dtype: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Vanished(Event):
    """A small number that was added to a low-precision tensor rounds to zero in its format."""

    number: float
    dtype: str
    operation: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Lost(Event):
    """Something was added to an accumulator of a low precision, which moved in so many of its elements."""

    dtype: str
    moved: int
    asked: int
    made: Site | None = None
    """Where the accumulator was made so; None where it was not seen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rated(Event):
    """A rate or a count that the loop computes, beside what really went through since the clock was last read."""

    expression: str
    value: float
    real_examples: int
    real_tokens: int | None
    backwards: int
    examples: int | None
    """Of one backward."""
    tokens: int | None
    skipped: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks(Event):
    """What the ranks did differently: in one attempt of one optimizer, each rank's value."""

    what: Literal["gradient", "completed", "scale", "weight"]
    """`weight`: what each rank's loss gives all of its elements together."""
    optimizer: int
    values: tuple[float, ...]
    backwards: tuple[int, ...] = ()
    """The attempt's backwards, by number."""
    attempted: bool = True
    """Whether every rank came to the attempt, completed or not."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Raised(Event):
    """The exception that ended the script."""

    kind: str
    text: str
    compiled: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Unjudged(Event):
    """Something that the audit could not see through."""

    what: str
    why: str
