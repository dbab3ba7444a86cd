"""Keeping a model's buffers aside, so that a skipped attempt leaves them as they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

WRITTEN_SILENTLY = frozenset({"running_mean", "running_var"})
"""Buffers that normalization kernels write without moving their version."""


@dataclass
class _Slot:
    """One buffer of one module: the tensor that stood there, its version, and a copy of its content."""

    owner: nn.Module
    name: str
    tensor: Tensor | None = None
    version: int | None = None
    """None on a tensor that has none: without content yet, or made in inference mode."""
    copy: Tensor | None = None
    silent: bool = False
    """A forward wrote it without moving its version, as writes through `.data` do."""
    lazy: bool = False
    """It had no content yet."""
    trained: bool = False
    """Its module was in training when it was kept: it may have written silently, whatever it is in now."""

    def keep(self, *, again: bool) -> tuple[Tensor, Tensor] | None:
        """Note what stands there. The copy to renew, and from what: if `again`, or where it may differ; else None."""
        tensor = self.owner._buffers.get(self.name)
        if tensor is not None and tensor is self.tensor and self.copy is not None and self.copy.shape == tensor.shape:
            renewed = again or self._may_differ(tensor)
            self.trained = self.owner.training
            self._note_version(tensor)
            return (self.copy, tensor) if renewed else None
        self.lazy, self.trained = tensor is not None and is_lazy(tensor), self.owner.training
        self.tensor, self.copy, self.version = tensor, None, None
        if tensor is not None and not self.lazy:
            self.copy = tensor.detach().clone()
            self.version = None if tensor.is_inference() else tensor._version
        return None

    def learn(self) -> None:
        """Notice a content that moved without its version."""
        tensor = self.owner._buffers.get(self.name)
        if tensor is not None and tensor is self.tensor and self.copy is not None and not self._may_differ(tensor):
            self.silent = (
                tensor.layout is not torch.strided or not _alike(tensor, self.copy) or not torch.equal(tensor, self.copy)
            )

    def restore(self, *, all_of_it: bool) -> None:
        """Put the tensor back, and its content; unless `all_of_it`, only where it may have moved."""
        self.owner._buffers[self.name] = tensor = self.tensor
        if tensor is None:
            return
        if self.copy is not None and (all_of_it or self._may_differ(tensor)):
            if _alike(tensor, self.copy):
                tensor.copy_(self.copy)
            else:
                tensor.data = self.copy.clone()
            self._note_version(tensor)
        if self.lazy and not is_lazy(tensor) and isinstance(self.owner, nn.modules.batchnorm._NormBase):
            self.owner.reset_running_stats()

    def _note_version(self, tensor: Tensor) -> None:
        if self.version is not None:
            self.version = tensor._version

    def _may_differ(self, tensor: Tensor) -> bool:
        if self.silent or self.version is None or tensor._version != self.version:
            return True
        return self.name in WRITTEN_SILENTLY and (self.trained or self.owner.training)


class Buffers:
    """The buffers of `model`: `keep` before an attempt, `learn` once its forwards have run, `restore` where it was skipped.

    A buffer that no forward writes is copied once; one that a forward writes (BatchNorm's statistics) once per attempt; a model
    without buffers costs nothing. Writes are seen by identity and version. Content is compared in the first attempt and again
    when a module that owns buffers has changed between training and evaluation, for it may write from then on. What a forward
    creates is kept from the next attempt on, and taken away by `restore`, together with the plain attributes that tell of it.
    A module that another has replaced is not seen unless the number of modules or buffers changed too.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._modules: list[nn.Module] = []
        self._slots: dict[tuple[int, str], _Slot] = {}
        self._contents: list[dict[str, Any]] = []
        self._size: int | None = None  # asks for a look
        self._modes: tuple[bool, ...] = ()
        self._learned: set[tuple[bool, ...]] = set()
        self._plain: list[tuple[dict[str, Any], list[str]]] = []
        self._values: list[list[Any]] = []

    def keep(self) -> None:
        """Copy what may be written next."""
        if sum(map(len, self._contents)) != self._size:
            self._look()
        self._modes = tuple([slot.owner.training for slot in self._slots.values()])
        again = not self._is_learned
        renewed = [pair for slot in self._slots.values() if (pair := slot.keep(again=again)) is not None]
        if renewed:
            with torch.no_grad():
                torch._foreach_copy_([copy for copy, _ in renewed], [tensor for _, tensor in renewed])
        self._values = [list(map(attributes.get, names)) for attributes, names in self._plain]

    def learn(self) -> None:
        """Notice which buffers the forwards since `keep` have written silently; costs something in new modes only."""
        if not self._is_learned:
            for slot in self._slots.values():
                slot.learn()
            self._learned.add(self._modes)
            self._size = None

    def restore(self) -> None:
        """Undo what was written or created since `keep`."""
        created = [(each, name) for each in self._modules for name in each._buffers if (id(each), name) not in self._slots]
        for module, name in created:
            delattr(module, name)
        if self._slots:
            with torch.no_grad():
                for slot in self._slots.values():
                    slot.restore(all_of_it=not self._is_learned)
        for (attributes, names), values in zip(self._plain, self._values, strict=True):
            attributes.update((name, value) for name, value in zip(names, values, strict=True) if _is_plain(attributes.get(name)))

    @property
    def _is_learned(self) -> bool:
        return self._modes in self._learned

    def _look(self) -> None:
        """Find what there is to keep; what is known of buffers that stayed is not forgotten.

        Attributes are those of modules that may create buffers, or tell by a flag or a length what they made: before anything has
        been learned all but torch's own, then only those that own buffers.
        """
        self._modules = list(self._model.modules())
        found = [_Slot(module, name) for module in self._modules for name in module._buffers]
        self._slots = {(id(slot.owner), slot.name): self._slots.get((id(slot.owner), slot.name), slot) for slot in found}
        self._contents = [held for module in self._modules for held in (module._modules, module._buffers)]
        self._size = sum(map(len, self._contents))
        telling = [module for module in self._modules if not type(module).__module__.startswith("torch.")]
        plain = [(vars(module), _names_of_plain(module)) for module in telling if module._buffers or not self._learned]
        self._plain = [(attributes, names) for attributes, names in plain if names]


def _names_of_plain(module: nn.Module) -> list[str]:
    return [name for name, value in vars(module).items() if _is_plain(value) and name != "training"]


def _is_plain(value: object) -> bool:
    return isinstance(value, (bool, int, float, str))


def _alike(left: Tensor, right: Tensor) -> bool:
    return left.shape == right.shape and left.dtype is right.dtype and left.device == right.device
