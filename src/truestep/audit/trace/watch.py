"""All instruments of one process, put in place together and taken away together."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils._python_dispatch import _disable_current_modes

from truestep.audit import device
from truestep.audit.events import Raised
from truestep.audit.trace import frames, timers
from truestep.audit.trace.autocasts import Autocasts
from truestep.audit.trace.averages import Averages
from truestep.audit.trace.backwards import Backwards
from truestep.audit.trace.clearings import Clearings
from truestep.audit.trace.clips import Clips
from truestep.audit.trace.hooks import Hooks
from truestep.audit.trace.modules import Modules
from truestep.audit.trace.operations import Operations
from truestep.audit.trace.optimizers import Optimizers
from truestep.audit.trace.patches import Patches
from truestep.audit.trace.recorder import Recorder
from truestep.audit.trace.scalers import Scalers
from truestep.audit.trace.schedulers import Schedulers
from truestep.audit.trace.settings import Settings
from truestep.audit.trace.states import States
from truestep.audit.trace.tracks import Tracks


class Watcher:
    """One process under audit. The instruments know each other through it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.recorder = Recorder()
        self.patches = Patches()
        self.tracks = Tracks()
        self.scalers = Scalers(self)
        self.optimizers = Optimizers(self)
        self.backwards = Backwards(self)
        self.clearings = Clearings(self)
        self.clips = Clips(self)
        self.hooks = Hooks(self)
        self.schedulers = Schedulers(self)
        self.averages = Averages(self)
        self.states = States(self)
        self.modules = Modules(self)
        self.autocasts = Autocasts(self)
        self.operations = Operations(self)

    def start(self) -> None:
        """Puts every instrument in place; optimizers that exist already are known from here on."""
        if self.settings.device is not None:
            device.install(self.settings.device, self.patches, self.recorder.mapped)
        for instrument in (
            self.scalers,
            self.optimizers,
            self.backwards,
            self.clearings,
            self.clips,
            self.hooks,
            self.schedulers,
            self.averages,
            self.states,
            self.modules,
            self.autocasts,
            self.operations,
        ):
            instrument.install()
        timers.install(self.recorder, self.patches)
        for each in gc.get_objects():
            if issubclass(type(each), Optimizer):  # isinstance would ask lazy objects for their class
                self.optimizers.know(each)

    def stop(self) -> None:
        """Takes every instrument away; what was seen stays."""
        for instrument in (self.operations, self.modules, self.optimizers):
            instrument.remove()
        self.patches.undo()

    def raised(self, error: BaseException) -> None:
        """The script ended with an exception of its own, or of what it called."""
        self.recorder.guard(self._raised)(error)

    def _raised(self, error: BaseException) -> None:
        site = frames.of_traceback(error.__traceback__)
        self.recorder.emit(Raised, site=site, kind=type(error).__name__, text=str(error))

    def hook(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """`hook` as the recorder guards it, unseen by any function or dispatch mode, the audit's own included.

        While code is being compiled it is not there: the compiler would take it into the graph, or break the graph at it.
        """
        guarded = self.recorder.guard(hook)

        @wraps(hook)
        def unseen(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return None
            with torch._C.DisableTorchFunction():
                if not torch._C._len_torch_dispatch_stack():
                    return guarded(*args, **kwargs)
                with _disable_current_modes():
                    return guarded(*args, **kwargs)

        return unseen
