"""Keeping a model's buffers aside, so that a skipped attempt leaves them as they were."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class _Slot:
    """One buffer of one module: the tensor that stood there, its version, and a copy of its content."""

    owner: nn.Module
    name: str
    tensor: Tensor | None = None
    version: int = -1
    copy: Tensor | None = None
    unversioned: bool = False
    """A forward wrote it past the version counter (through `.data`): it has to be copied at every attempt."""

    def keep(self) -> None:
        """Copy the content, unless it is known to be the one already copied."""
        tensor = self.owner._buffers.get(self.name)
        if tensor is None:
            self.tensor = self.copy = None
        elif tensor is not self.tensor or self.copy is None or self.copy.shape != tensor.shape:
            self.copy = tensor.detach().clone()
        elif tensor._version != self.version or self.unversioned:
            self.copy.copy_(tensor)
        self.tensor, self.version = tensor, -1 if tensor is None else tensor._version

    def restore(self) -> None:
        """Put tensor and content back."""
        tensor = self.tensor
        self.owner._buffers[self.name] = tensor
        if tensor is not None and self.copy is not None and (self.unversioned or tensor._version != self.version):
            tensor.copy_(self.copy)
            self.version = tensor._version

    def watch(self) -> None:
        """Learn whether the content moves without its version."""
        tensor = self.owner._buffers.get(self.name)
        if tensor is not None and tensor is self.tensor and self.copy is not None and tensor._version == self.version:
            self.unversioned = not torch.equal(tensor, self.copy)


class Buffers:
    """The buffers of `model`, kept by `keep` and put back by `restore`.

    A buffer that no forward writes is copied once; one that a forward writes (BatchNorm's statistics) once per attempt; a model
    without buffers costs nothing. Writes are seen by identity and version, and by content in the first attempt, which catches
    buffers written through `.data`. Buffers that a first forward creates are found by `learn`.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._learned = False
        self._slots = self._find()

    @torch.no_grad()
    def keep(self) -> None:
        """Copy what may be written next."""
        for slot in self._slots:
            slot.keep()

    @torch.no_grad()
    def learn(self) -> None:
        """After the forwards of an attempt, before `restore`: costs something in the first attempt only."""
        if self._learned:
            return
        for slot in self._slots:
            slot.watch()
        known = {(id(slot.owner), slot.name) for slot in self._slots}
        self._slots += [slot for slot in self._find() if (id(slot.owner), slot.name) not in known]
        self._learned = True

    @torch.no_grad()
    def restore(self) -> None:
        """Undo what was written since `keep`."""
        for slot in self._slots:
            if slot.tensor is not None or slot.copy is not None:
                slot.restore()

    def _find(self) -> list[_Slot]:
        return [_Slot(module, name) for module in self._model.modules() for name in module._buffers]
