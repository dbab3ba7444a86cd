"""What the instruments ask of each other: each knows the others by these words alone, and the watcher knows them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from truestep.audit.events import Divisor
from truestep.audit.site import Site
from truestep.audit.trace.forward import Forward
from truestep.audit.trace.patches import Patches
from truestep.audit.trace.recorder import Recorder
from truestep.audit.trace.settings import Settings
from truestep.audit.trace.tracks import Track, Tracks

Of = Literal["gradient", "clip", "loss", "penalty"]
"""What a number that carries the loss scale was made of."""

Written = list[tuple[Track, Tensor, Tensor]]
"""Gradients that are about to be written: whose, of which parameter, and a copy."""


class Scalers(Protocol):
    """`torch.amp.GradScaler`."""

    roots: dict[Any, tuple[int, float]]
    """The scaler and the scale behind a node of a graph."""
    stepping: int | None
    """The scaler whose step is running."""

    def scales(self) -> set[float]:
        """Those of all scalers that are on."""

    def begun_with(self, seeds: Any) -> tuple[str, int | None, float] | None:
        """What a backward carries that begins with a scaler's scale instead of 1; None where it does not."""

    def behind(self, *roots: Tensor) -> tuple[str, int | None, float]:
        """Whether all, none or a part of a backward's roots went through a scaler; which one, and its scale."""


class Optimizers(Protocol):
    """Optimizers and their attempts."""

    stepping: int
    """How deep in optimizers' own steps the process is."""

    def know(self, optimizer: Optimizer) -> Track:
        """Tells of an optimizer where it is new."""

    def skipped(self, optimizer: Optimizer) -> None:
        """A scaler ended an attempt without calling the optimizer's own step."""

    def enough(self, optimizer: Optimizer) -> None:
        """Ends the script where as many attempts were made as were asked for."""

    def made_low(self, track: Track) -> None:
        """Tells of parameters and gradients that a step may fail on."""


class Clearings(Protocol):
    """Gradients that are cleared."""

    def gone(self, track: Track, *, stepping: bool = True) -> None:
        """Tells where gradients that no step has used are gone."""

    def note_zero(self) -> None:
        """Gradients are being cleared by the line that runs."""

    def kept(self, track: Track) -> bool:
        """Whether the backward that begins adds to gradients."""

    def take(self) -> Site | None:
        """The line that cleared gradients since the last backward."""


class Hooks(Protocol):
    """Hooks on parameters."""

    scale: float
    """The loss scale of the backward that runs or ran last."""


class Averages(Protocol):
    """Moving averages of weights."""

    def by_hand(self, site: Site | None, dtype: torch.dtype, asked: int, moved: int) -> None:
        """A line of the script moved a tensor towards a parameter."""


class Modules(Protocol):
    """Modules and their forwards."""

    stack: list[nn.Module]
    """Those that run now, the outermost first."""
    synced: bool | None
    unsynced_at: Site | None

    def take(self) -> Forward:
        """What was called since this was last asked."""

    def cast_at(self, parameter: Tensor) -> Site | None:
        """The line that made a parameter low in precision."""

    def attempted(self, *, completed: bool) -> None:
        """An attempt ended."""

    def name(self, module: nn.Module) -> str:
        """A module's name within the outermost one, and its kind."""

    def unsynced(self, track: Track) -> bool:
        """Whether a forward of a DDP module that holds the track's parameters asked for no averaging."""

    @property
    def poisoned(self) -> Iterable[nn.Module]:
        """Those whose buffers were left unfit."""


class Autocasts(Protocol):
    """Regions of automatic casts."""

    @property
    def inside(self) -> bool:
        """Whether a region is open that casts."""

    @property
    def dtype(self) -> str | None:
        """What the open region casts to."""

    def take(self) -> str | None:
        """The format of the regions since this was last asked."""


class Taints(Protocol):
    """Numbers that carry the loss scale."""

    def mark(self, tensors: Iterable[Tensor], factor: float, of: Of = "gradient", made: Site | None = None) -> None:
        """These are `factor` times what they are called."""

    def entered(self, outputs: Any) -> None:
        """These go into a backward, or into a gradient that is taken."""


class Edits(Protocol):
    """Gradients and weights by their memory."""

    def touching(self, name: str, given: list[Any]) -> Written:
        """The gradients that an operation is about to write."""

    def written(self, name: str, before: Written, *, reduced: bool = False, commutes: bool | None = None) -> None:
        """What the operation made of them."""

    def is_weight(self, tensor: Tensor) -> bool:
        """Whether it lies where a parameter lies that an optimizer steps."""

    def is_gradient(self, tensor: Tensor) -> bool:
        """Whether it lies where a gradient lies."""


class Cuts(Protocol):
    """Places where graphs end."""

    def install(self) -> None:
        """Puts the instrument in place."""

    def blind(self, module: nn.Module) -> None:
        """A module runs where nothing is differentiated."""

    def settle(self, track: Track) -> None:
        """An attempt begins: what was cut is the reason for what has no gradient."""


class Numbers(Protocol):
    """Numbers that a format cannot hold."""

    @property
    def cuts(self) -> Cuts: ...


class Operations(Protocol):
    """Single operations."""

    @property
    def taints(self) -> Taints: ...
    @property
    def edits(self) -> Edits: ...
    @property
    def numbers(self) -> Numbers: ...

    def pause(self) -> None:
        """What follows is not the script's own doing."""

    def go_on(self) -> None:
        """It is again."""

    def step_aside(self) -> None:
        """What follows goes by another path where a function mode is on the stack."""

    def come_back(self) -> None:
        """It has ended."""

    def unpaused(self) -> AbstractContextManager[None]:
        """Inside, the script's own doing is seen, as in a closure that an optimizer calls."""

    def gradients_stand(self) -> None:
        """A backward ended."""

    def attempted(self) -> None:
        """An attempt ended."""

    def divided(self, root: Tensor) -> Site | None:
        """The last line that multiplied or divided the loss by a number."""

    def divisors(self, root: Tensor) -> Sequence[Divisor]:
        """What the loss was divided by, and where."""

    def computed(self, root: Tensor) -> Site | None:
        """Where the loss was made."""


class Watcher(Protocol):
    """One process under audit."""

    @property
    def settings(self) -> Settings: ...
    @property
    def recorder(self) -> Recorder: ...
    @property
    def patches(self) -> Patches: ...
    @property
    def tracks(self) -> Tracks: ...
    @property
    def scalers(self) -> Scalers: ...
    @property
    def optimizers(self) -> Optimizers: ...
    @property
    def clearings(self) -> Clearings: ...
    @property
    def hooks(self) -> Hooks: ...
    @property
    def averages(self) -> Averages: ...
    @property
    def modules(self) -> Modules: ...
    @property
    def autocasts(self) -> Autocasts: ...
    @property
    def operations(self) -> Operations: ...

    def hook(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """`hook` as the recorder guards it, unseen by any function mode."""
