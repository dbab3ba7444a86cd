"""Modules: which line called the outermost one, what it was given, which buffers it left unfit, and where weights were cast."""

from __future__ import annotations

import weakref
from functools import wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from truestep.audit.events import Poisoned
from truestep.audit.site import Site
from truestep.audit.trace.forward import Forward
from truestep.audit.trace.tracks import LOW
from truestep.probe.finiteness import not_finite

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher
    from truestep.audit.trace.tracks import Track


FUSED = (nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.MultiheadAttention)
"""Outside of training these have a kernel of their own, which rounds otherwise, and do without it where a function mode is on."""


def _is_fused(module: nn.Module) -> bool:
    """Whether such a module may take its own kernel."""
    differentiated = torch.is_grad_enabled() and any(each.requires_grad for each in module.parameters())
    return not module.training and not differentiated


class Modules:
    """Hooks on every module while a window is judged, and the few methods that change what a parameter is."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._handles: list[RemovableHandle] = []
        self._forward = Forward()
        self._last = Forward()
        self.stack: list[nn.Module] = []
        self.root: weakref.ref[nn.Module] | None = None
        self.synced: bool | None = None
        """Whether the last forward of a DDP module asked for its gradients to be averaged; none of it has yet asked for that."""
        self.unsynced_at: Site | None = None
        """The line that last told a DDP not to average."""
        self._averaging: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()
        """Whether the last forward of each DDP asked for it."""
        self._buffered: weakref.WeakKeyDictionary[nn.Module, frozenset[str]] = weakref.WeakKeyDictionary()
        """The buffers that were finite when their module was first seen: a mask of infinities, say, is nobody's harm."""
        self._poisoned: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._fused: nn.Module | None = None
        self._cast: dict[int, tuple[weakref.ref[Tensor], Site | None]] = {}

    def install(self) -> None:
        """Puts the instrument in place."""
        self._listen()
        self._watcher.recorder.when_turned.append(self._listen)
        patches, watcher = self._watcher.patches, self._watcher
        forward: Any = DistributedDataParallel.forward
        apply: Any = nn.Module._apply
        register: Any = nn.Module.register_parameter
        noted, cast, made = watcher.hook(self._ddp), watcher.hook(self._note_cast), watcher.hook(self._note_made)

        @wraps(forward)
        def watched_forward(ddp: Any, *args: Any, **kwargs: Any) -> Any:
            noted(ddp)
            return forward(ddp, *args, **kwargs)

        @wraps(apply)
        def watched_apply(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            low = cast(module, None)
            result = apply(module, *args, **kwargs)
            cast(module, low)
            return result

        @wraps(register)
        def watched_register(module: nn.Module, name: str, param: Any) -> None:
            register(module, name, param)
            made(param)

        self._watch_ddp()
        self._watcher.operations.numbers.cuts.install()
        patches.replace(DistributedDataParallel, "forward", watched_forward)
        patches.replace(nn.Module, "_apply", watched_apply)
        patches.replace(nn.Module, "register_parameter", watched_register)

    def _watch_ddp(self) -> None:
        """When a DDP is made, and who tells it whether to average: `no_sync`, or the script by its flag."""
        init, tell = DistributedDataParallel.__init__, DistributedDataParallel.__setattr__
        made, told = self._watcher.hook(self._ddp_made), self._watcher.hook(self._ddp_told)

        @wraps(init)
        def __init__(ddp: Any, *args: Any, **kwargs: Any) -> None:
            init(ddp, *args, **kwargs)
            made(ddp)

        @wraps(tell)
        def __setattr__(ddp: Any, name: str, value: Any) -> None:
            told(name, value)
            tell(ddp, name, value)

        self._watcher.patches.replace(DistributedDataParallel, "__init__", __init__)
        self._watcher.patches.replace(DistributedDataParallel, "__setattr__", __setattr__)

    @property
    def poisoned(self) -> weakref.WeakSet[nn.Module]:
        """Those whose buffers were left unfit."""
        return self._poisoned

    def remove(self) -> None:
        """Takes it away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def take(self) -> Forward:
        """What was called since this was last asked; the last that was seen, where the hooks are off."""
        taken, self._forward = self._forward, Forward()
        if taken.calls:
            self._last = taken
            return taken
        return self._last if not self._handles else taken

    def cast_at(self, parameter: Tensor) -> Site | None:
        """The line that made a parameter low in precision; None where it was not seen."""
        held = self._cast.get(id(parameter))
        return held[1] if held is not None and held[0]() is parameter else None

    def attempted(self, *, completed: bool) -> None:
        """An attempt ended: buffers that a skipped one left unfit are told, once for each module."""
        self.stack.clear()
        if completed and not self._watcher.recorder.judging:
            return
        for module, whole in list(self._buffered.items()):
            if module in self._poisoned:
                continue
            bad = [
                name for name, buffer in module.named_buffers(recurse=False) if name in whole and not_finite(buffer) is not None
            ]
            if bad:
                self._poisoned.add(module)
                self._watcher.recorder.emit(
                    Poisoned, site=self._last.site or self._forward.site, module=self.name(module), buffers=tuple(bad)
                )

    def name(self, module: nn.Module) -> str:
        """A module's name within the outermost one, and its kind."""
        root = self.root() if self.root is not None else None
        names = {} if root is None else {id(each): name for name, each in root.named_modules()}
        name = names.get(id(module))
        return f"{type(module).__name__} {name!r}" if name else type(module).__name__

    def _listen(self) -> None:
        if self._watcher.recorder.judging == bool(self._handles):
            return
        self.stack.clear()
        if self._handles:
            self.remove()
            return
        before, after = self._watcher.hook(self._entering), self._watcher.hook(self._leaving)
        self._handles = [register_module_forward_pre_hook(before), register_module_forward_hook(after, always_call=True)]

    def _entering(self, module: nn.Module, inputs: Any) -> None:
        if not self.stack and not isinstance(module, nn.modules.loss._Loss):
            self._outermost(module, inputs)
        self.stack.append(module)
        if self._fused is None and isinstance(module, FUSED) and _is_fused(module):
            self._fused = module
            self._watcher.operations.step_aside()
        if not torch.is_grad_enabled():
            self._watcher.operations.numbers.cuts.blind(module)
        if module._buffers and module.training and module not in self._buffered:
            buffers = module.named_buffers(recurse=False)
            self._buffered[module] = frozenset(name for name, buffer in buffers if not_finite(buffer) is None)

    def _outermost(self, module: nn.Module, inputs: Any) -> None:
        if self.root is None or self.root() is not module:
            self.root = weakref.ref(module)
        first = next((leaf for leaf in tree_leaves(inputs) if isinstance(leaf, Tensor)), None)
        whole = first is not None and first.ndim > 0
        self._forward.site = self._watcher.recorder.site()
        self._forward.calls += 1
        if torch.is_grad_enabled() and first is not None and whole:
            self._forward.examples = first.shape[0]
            integers = not first.is_floating_point() and not first.is_complex()
            self._forward.tokens = first.numel() if integers else None

    def _leaving(self, module: nn.Module, *_: Any) -> None:
        if module is self._fused:
            self._fused = None
            self._watcher.operations.come_back()
        while self.stack and self.stack.pop() is not module:
            pass

    def _ddp(self, ddp: Any) -> None:
        self.synced = self._averaging[ddp] = bool(ddp.require_backward_grad_sync)

    def _ddp_made(self, ddp: Any) -> None:
        self.synced = self._averaging[ddp] = False

    def _ddp_told(self, name: str, value: Any) -> None:
        if name == "require_backward_grad_sync" and not value:
            self.unsynced_at = self._watcher.recorder.site()

    def unsynced(self, track: Track) -> bool:
        """Whether a DDP that was told not to average, or was not called at all, holds parameters of the optimizer."""
        if not self._averaging or all(self._averaging.values()):
            return False
        own = {id(each) for each in track.parameters}
        asleep = [ddp for ddp, asked in self._averaging.items() if not asked]
        return any(id(each) in own for ddp in asleep for each in ddp.parameters())

    def _note_cast(self, module: nn.Module, low: set[int] | None) -> set[int]:
        """The module's low-precision parameters; those that were not among `low` before were cast by this call."""
        now = {id(each): each for each in module.parameters() if each.dtype in LOW or each.is_complex()}
        if low is not None:
            for key in now.keys() - low:
                self._remember(now[key])
        return set(now)

    def _note_made(self, parameter: Any) -> None:
        if isinstance(parameter, Tensor) and (parameter.dtype in LOW or parameter.is_complex()):
            self._remember(parameter)

    def _remember(self, parameter: Tensor) -> None:
        self._cast[id(parameter)] = (weakref.ref(parameter), self._watcher.recorder.site())
