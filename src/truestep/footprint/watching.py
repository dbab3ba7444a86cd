"""Watches every storage that torch makes and frees while an attempt runs, on real tensors and on fakes alike."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from truestep.footprint.log import Account, Event, Phase, account
from truestep.footprint.workspaces import Workspaces

_READS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default)


class DataDependentError(Exception):
    """A forward reads values, which a fake does not have."""


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's is
    """Inside, each operation's new storages are noted when they come and when they go.

    Made where nothing of the attempt is there yet but what `know` is told of: what an operation is given and nobody has told
    of lies outside, and is not counted. A read of a fake's value is answered where the engine asks, as if every number were 1/2
    and no flag were set, and is a DataDependentError in a forward. `workspaces` tell of a prediction what lies inside of kernels.
    """

    def __init__(self, device: torch.device, workspaces: Workspaces | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's is
        self._device = device
        self._workspaces = workspaces
        self.events: list[Event] = []
        self.kinds: dict[int, str] = {}
        self.phase: Phase = "forward"
        self.microbatch = 0
        self._live: dict[int, int | None] = {}
        self._next = self._start = 0
        self._saved: dict[int, int] = {}

    def know(self, tensors: Iterable[Tensor], kind: str) -> None:
        """Say what the storages of `tensors` are for; the first word stands. New ones are counted from now on."""
        for storage in self._storages(tensors):
            if storage._cdata not in self._live:
                self._note(storage)
            number = self._live[storage._cdata]
            if number is not None:
                self.kinds.setdefault(number, kind)

    def save(self, tensor: Tensor) -> Tensor:
        """The hook of what autograd saves: an activation, unless it is known as something else."""
        for storage in self._storages([tensor]):
            number = self._live.get(storage._cdata)
            if number is None:
                continue
            self.kinds.setdefault(number, "activations")
            self._saved[number] = storage.nbytes()
        return tensor

    def account(self) -> Account:
        """What the attempt took."""
        return account(self.events, self.kinds, start=self._start, saved=self._saved_bytes())

    def _saved_bytes(self) -> dict[str, int]:
        """What was saved, each storage once, by kind."""
        sums: dict[str, int] = {}
        for number, size in self._saved.items():
            sums[self.kinds[number]] = sums.get(self.kinds[number], 0) + size
        return sums

    def start(self) -> None:
        """All has been told that is there before."""
        self._start = len(self.events)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation, and note what came of it."""
        if func in _READS and isinstance(args[0], FakeTensor) and args[0].constant is None:
            return self._read(func, args[0])
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        made_before = func is torch.ops.aten.lift_fresh.default  # torch.tensor(...) is seen here for the first time
        for storage in () if made_before else self._storages(given):
            if storage._cdata not in self._live:
                self._follow(storage, None)
        is_real = bool(given) and not made_before and not any(isinstance(leaf, FakeTensor) for leaf in given)
        with unset_fake_temporarily() if is_real else nullcontext():  # a constant of the loss's own keeps its values
            out = func(*args, **(kwargs or {}))
        if self._workspaces is not None:
            out = self._workspaces.with_record(func, args, out)
        for storage in self._storages(tree_leaves(out)):
            if storage._cdata not in self._live:
                self._note(storage)
        if self._workspaces is not None and (inside := self._workspaces.bytes_of(func, args, out)):
            self.hold(inside, "workspaces", at_once=True)
        if func is torch.ops.aten._to_copy.default and self.phase == "forward" and self._is_weight(args[0]):
            self.know([out], "low_copies")
        return out

    def hold(self, size: int, kind: str, *, at_once: bool = False) -> None:
        """Bytes that no operation shows: from now to the end, or gone at once."""
        number, self._next = self._next, self._next + 1
        self.kinds[number] = kind
        self.events.append(Event(number, size, self.phase, self.microbatch))
        if at_once:
            self.events.append(Event(number, -size, self.phase, self.microbatch))

    def _storages(self, leaves: Iterable[Any]) -> Iterator[torch.UntypedStorage]:
        """Of every tensor of the device among `leaves`; of a sparse one, those of its indices and values."""
        for leaf in leaves:
            if not isinstance(leaf, Tensor) or leaf.device.type != self._device.type:
                continue
            if leaf.layout is torch.strided:
                yield leaf.untyped_storage()
            elif leaf.layout is torch.sparse_coo:
                yield from (leaf._indices().untyped_storage(), leaf._values().untyped_storage())

    def _read(self, func: Any, value: Tensor) -> Any:
        if self.phase == "forward":
            raise DataDependentError("the forward reads a value (.item(), bool(), a size that depends on data)")
        if func is torch.ops.aten.equal.default:
            return True
        return 0.5 if value.is_floating_point() else value.dtype is not torch.bool

    def _is_weight(self, tensor: Tensor) -> bool:
        number = self._live.get(tensor.untyped_storage()._cdata)
        return number is not None and self.kinds.get(number) == "weights"

    def _note(self, storage: torch.UntypedStorage) -> None:
        number, size = self._next, storage.nbytes()
        self._next += 1
        self.events.append(Event(number, size, self.phase, self.microbatch))
        self._follow(storage, number)

    def _follow(self, storage: torch.UntypedStorage, number: int | None) -> None:
        self._live[storage._cdata] = number
        weakref.finalize(storage, _gone(self), storage._cdata, storage.nbytes()).atexit = False

    def _free(self, key: int, size: int) -> None:
        number = self._live.pop(key, None)
        if number is not None:
            self.events.append(Event(number, -size, self.phase, self.microbatch))


def _gone(watch: Watch) -> Callable[[int, int], None]:
    """What a storage's end calls; it keeps no watch alive."""
    held = weakref.ref(watch)

    def gone(key: int, size: int) -> None:
        alive = held()
        if alive is not None:
            alive._free(key, size)

    return gone
