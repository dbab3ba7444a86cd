"""A program of the engine as a value: how an update is built, and what is then asked of it, one action after the other."""

from __future__ import annotations

from dataclasses import dataclass, fields

import truestep

POISONS = ("", "nan", "inf", "gain", "spike", "undefined", "nan loss", "inf loss", "raises")
"""What is wrong with a microbatch. gain: its loss is multiplied by 2^`gain`; spike: one element of its gradient grows by that;
undefined: its gradient is 0/0 at a finite loss; inf loss: infinity is added to its loss, whose gradient stays finite; raises: its
loss function does."""


@dataclass(frozen=True)
class Micro:
    """One microbatch: its examples are drawn from `seed`; `weight` is what it declares where weights are declared."""

    size: int = 2
    seed: int = 0
    poison: str = ""
    gain: int = 0
    weight: float = 1.0
    scored: bool = True
    """False: no target of it is scored, so that its own mean is 0/0 and its weight in scored tokens 0."""


@dataclass(frozen=True)
class Scale:
    """A loss scale that is asked for; its floor is 2^`low`, its ceiling 2^`high` or float32's."""

    kind: str = "dynamic"
    init: float = 65536.0
    interval: int = 2000
    growth: float = 2.0
    backoff: float = 0.5
    low: int = -16
    high: int | None = None

    def build(self) -> truestep.LossScale:
        """The engine's own."""
        if self.kind == "none":
            return truestep.LossScale.none()
        if self.kind == "static":
            return truestep.LossScale.static(self.init)
        high = None if self.high is None else 2.0**self.high
        return truestep.LossScale.dynamic(
            self.init, growth=self.growth, backoff=self.backoff, interval=self.interval, min=2.0**self.low, max=high
        )


@dataclass(frozen=True)
class Setup:
    """How an update is built."""

    model: str = "linear"
    policy: str = "fp32"
    optimizer: str = "sgd"
    second: str | None = None
    """Another optimizer, of the second half of the parameters."""
    groups: int = 1
    given: str = "itself"
    """How the update gets its optimizer: itself, or function: from parameters to it."""
    loss_is: str = "mean"
    weights: str = "examples"
    """examples: nothing is declared; scored: the scored targets; declared: each microbatch's own number, unchecked."""
    scale: Scale | None = None
    clip: tuple[str, float] | None = None
    scheduler: str | None = None
    clock: str | tuple[str, int] = "completed"
    """A name, or ("examples", N) or ("tokens", N)."""
    incurable: str = "keep"
    max_consecutive_skips: int | None = None
    tokens: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Call:
    """`update(window)`. `again`: the same examples are also given to a twin, joined into one microbatch."""

    window: tuple[Micro, ...] = (Micro(),)
    ends_epoch: bool = False
    again: bool = False
    step_raises: bool = False
    """The last optimizer's step raises, after those before it have stepped."""


@dataclass(frozen=True)
class Block:
    """`with update.attempt()`: forward and backward by hand, with or without a total, told its counts in one of several ways."""

    window: tuple[Micro, ...] = (Micro(),)
    total: bool = True
    told: str = "microbatch"
    """microbatch, counts or nothing."""
    raises_at: int | None = None
    """An exception before forward k at 2k, between its forward and its backward at 2k + 1."""
    ends_epoch: bool = False


@dataclass(frozen=True)
class Epoch:
    """The windows of `size` that `truestep.windows` makes of the microbatches; the last may be short, and ends the epoch."""

    microbatches: tuple[Micro, ...] = (Micro(), Micro(), Micro())
    size: int = 2


@dataclass(frozen=True)
class Reload:
    """Everything is saved, and goes on in a freshly built twin."""


@dataclass(frozen=True)
class Mode:
    """`model.train(training)`."""

    training: bool = False


Action = Call | Block | Epoch | Reload | Mode


@dataclass(frozen=True)
class Program:
    """What Hypothesis draws, prints and shrinks."""

    setup: Setup = Setup()
    actions: tuple[Action, ...] = (Call(),)

    def __repr__(self) -> str:
        """What runs it, fields at their defaults left out."""
        return f"Program({_brief(self.setup)}, {_brief(self.actions)})"

    def snippet(self) -> str:
        """A script that runs it."""
        return "\n".join(
            (
                "from tests.engine.programs.running import hold",
                "from tests.engine.programs.program import *",
                f"hold({self!r})",
            )
        )


def _brief(value: object) -> str:
    if isinstance(value, tuple):
        return f"({''.join(f'{_brief(item)}, ' for item in value).rstrip()})"
    if isinstance(value, Micro | Scale | Setup | Call | Block | Epoch | Reload | Mode):
        told = ((f.name, getattr(value, f.name), f.default) for f in fields(value))
        return f"{type(value).__name__}({', '.join(f'{name}={_brief(found)}' for name, found, usual in told if found != usual)})"
    return repr(value)
