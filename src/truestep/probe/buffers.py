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
    version: int | None = None
    copy: Tensor | None = None
    silent: bool = False
    """A forward wrote it without moving its version, as BatchNorm's kernels and writes through `.data` do."""

    def keep(self, *, again: bool) -> None:
        """Copy the content; unless `again`, only where it may differ from the copy that is there."""
        tensor = self.owner._buffers.get(self.name)
        if tensor is None:
            self.copy = None
        elif self.copy is None or tensor is not self.tensor or self.copy.shape != tensor.shape:
            self.copy = tensor.detach().clone()
        elif again or self.silent or tensor._version != self.version:
            self.copy.copy_(tensor)
        self.tensor, self.version = tensor, None if tensor is None else tensor._version

    def learn(self) -> None:
        """Notice a content that moved without its version."""
        tensor = self.owner._buffers.get(self.name)
        if tensor is not None and tensor is self.tensor and tensor._version == self.version and self.copy is not None:
            self.silent = self.silent or not torch.equal(tensor, self.copy)

    def restore(self, *, all_of_it: bool) -> None:
        """Put the tensor back, and its content; unless `all_of_it`, only where it may have moved."""
        self.owner._buffers[self.name] = self.tensor
        if self.tensor is not None and self.copy is not None:
            if all_of_it or self.silent or self.tensor._version != self.version:
                self.tensor.copy_(self.copy)
            self.version = self.tensor._version


class Buffers:
    """The buffers of `model`: `keep` before an attempt, `learn` once its forwards have run, `restore` or `adopt` at its end.

    A buffer that no forward writes is copied once; one that a forward writes (BatchNorm's statistics) once per attempt; a model
    without buffers costs nothing. Writes are seen by identity and version. Content is compared in the first attempt and again
    when a module that owns buffers has changed between training and evaluation, for it may write from then on. Modules added to
    the model later are not seen.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._slots = self._find()
        self._learned: set[tuple[bool, ...]] = set()
        self._modes: tuple[bool, ...] = ()
        self._adopted = False

    @torch.no_grad()
    def keep(self) -> None:
        """Copy what may be written next."""
        self._modes = tuple(slot.owner.training for slot in self._slots)
        for slot in self._slots:
            slot.keep(again=self._modes not in self._learned)

    @torch.no_grad()
    def learn(self) -> None:
        """Notice which buffers the forwards since `keep` have written silently; costs something in new modes only."""
        if self._modes not in self._learned:
            for slot in self._slots:
                slot.learn()
            self._learned.add(self._modes)

    @torch.no_grad()
    def restore(self) -> None:
        """Undo what was written or created since `keep`."""
        for slot in self._slots:
            slot.restore(all_of_it=self._modes not in self._learned)
        for slot in self._new():
            del slot.owner._buffers[slot.name]

    @torch.no_grad()
    def adopt(self) -> None:
        """After a completed attempt: keep, from the next one on, what its forwards created."""
        if not self._adopted:
            self._slots += self._new()
            self._adopted = True

    def _new(self) -> list[_Slot]:
        known = {(id(slot.owner), slot.name) for slot in self._slots}
        return [slot for slot in self._find() if (id(slot.owner), slot.name) not in known]

    def _find(self) -> list[_Slot]:
        return [_Slot(module, name) for module in self._model.modules() for name in module._buffers]
