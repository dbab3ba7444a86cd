"""What a script itself reduces over the ranks: gradients, weights, a number they agree on, a loss before its backward."""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from truestep.audit.events import Edited, Reduced
from truestep.audit.trace.tracks import Track, gradients, norm, ranks

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher

REDUCES = ("all_reduce", "reduce", "broadcast", "all_gather", "all_gather_into_tensor")
"""The functions of torch.distributed that bring numbers of all ranks together."""
GATHERS = ("all_gather", "all_gather_into_tensor")
"""Those that are given what is brought together after where it goes."""
PUTS_BACK = frozenset(("copy_", "_foreach_copy_", "__set__", "__setitem__"))
"""Writes by which gradients come back from a buffer that was reduced."""
DIFFERENTIABLE = "torch.distributed.nn.functional"

Edit = tuple[Track, Tensor, Tensor]
What = Literal["gradient", "weights", "number", "other"]


class Reductions:
    """Calls of torch.distributed by the script; DDP's own averaging does not go through them."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._aside = 0
        """Elements of gradients that were reduced in a buffer and may still be put back."""
        self._losses_seen = False

    def install(self) -> None:
        """Watches them from here on."""
        if not torch.distributed.is_available():
            return
        distributed = sys.modules["torch.distributed"]
        for name in REDUCES:
            self._watcher.patches.replace(distributed, name, self._watched(name, getattr(distributed, name)))
        begin = distributed.init_process_group
        losses = self._watcher.hook(self._watch_losses)

        @wraps(begin)
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            losses()
            return begin(*args, **kwargs)

        self._watcher.patches.replace(distributed, "init_process_group", init_process_group)

    def forget(self) -> None:
        """A backward or an attempt ended: nothing that was reduced before is put back any more."""
        self._aside = 0

    def put_back(self, name: str, edited: list[Edit]) -> bool:
        """Whether a write of gradients brings back what a reduction made."""
        if name not in PUTS_BACK or not self._aside:
            return False
        self._aside = max(0, self._aside - sum(parameter.numel() for _, parameter, _ in edited))
        return True

    def _watched(self, name: str, original: Any) -> Any:
        before, after = self._watcher.hook(self._before), self._watcher.hook(self._after)
        place = 1 if name in GATHERS else 0

        @wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            tensor = args[place] if len(args) > place else kwargs.get("input_tensor", kwargs.get("tensor"))
            seen = before(name, tensor)
            result = original(*args, **kwargs)
            if seen is not None:
                operation = str(kwargs.get("op", args[1] if name == "all_reduce" and len(args) > 1 else "sum"))
                after(name, tensor, seen, operation, bool(kwargs.get("async_op")))
            return result

        return watched

    def _before(self, name: str, tensor: Any) -> tuple[list[Edit], float] | None:
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or not self._watcher.recorder.judging:
            return None
        in_place = "" if name in GATHERS else f"{name}_"
        return self._watcher.operations.edits.touching(in_place, [tensor]), norm([tensor.detach()])

    def _after(self, name: str, tensor: Tensor, seen: tuple[list[Edit], float], operation: str, later: bool) -> None:
        """`later` is true where nothing has been reduced yet: the script is going to wait for it."""
        edited, given = seen
        tracks = [track for track in self._watcher.tracks if track.backwards and not track.stale]
        carried = max((track.carried for track in tracks), default=1.0)
        late = self._used_up(tensor)
        what = self._what(tensor, tracks, is_gradient=bool(edited or late))
        if what == "gradient" and not (edited or late):
            self._aside = tensor.numel()
        self._watcher.recorder.emit(
            Reduced,
            site=self._watcher.recorder.site(),
            what=what,
            operation="avg" if "AVG" in operation else operation.rpartition(".")[2].lower(),
            ranks=ranks(),
            optimizers=tuple(track.number for track in tracks + late),
            given=given / carried,
            made=None if later or name in GATHERS else norm([tensor.detach()]) / carried,
        )
        if edited and later:
            self._will_be_written(name, edited, carried)
        elif edited:
            self._watcher.operations.edits.written(name, edited, reduced=True)

    def _what(self, tensor: Tensor, tracks: list[Track], *, is_gradient: bool) -> What:
        edits, standing = (
            self._watcher.operations.edits,
            sum(each.numel() for track in tracks for each in gradients(track.parameters)),
        )
        weights = sum(each.numel() for track in self._watcher.tracks for each in track.parameters)
        if is_gradient or (tensor.numel() > 1 and tensor.numel() == standing) or edits.is_gradient(tensor):
            return "gradient"
        if (tensor.numel() == weights and weights > 1) or edits.is_weight(tensor):
            return "weights"
        return "number" if tensor.numel() == 1 else "other"

    def _used_up(self, tensor: Tensor) -> list[Track]:
        """The optimizers that have stepped with this gradient already."""
        place = tensor.data_ptr()
        stale = [track for track in self._watcher.tracks if track.stale]
        return [
            track for track in stale if any(each.grad is not None and each.grad.data_ptr() == place for each in track.parameters)
        ]

    def _will_be_written(self, name: str, edited: list[Edit], carried: float) -> None:
        recorder, site = self._watcher.recorder, self._watcher.recorder.site()
        told: dict[str, Any] = {
            "operation": name,
            "carried": carried,
            "ratio": None,
            "cosine": None,
            "hid": False,
            "reduced": True,
        }
        for number in {track.number for track, _, _ in edited}:
            recorder.emit(Edited, site=site, optimizers=(number,), **told)

    def _watch_losses(self) -> None:
        """The reduction that autograd goes through, where the script has imported it; its backward reduces once more."""
        module = sys.modules.get(DIFFERENTIABLE)
        if module is None or self._losses_seen:
            return
        self._losses_seen = True
        reduce: Any = module._AllReduce
        original, seen = reduce.apply, self._watcher.hook(self._loss)

        def apply(op: Any, group: Any, tensor: Tensor) -> Any:
            result = original(op, group, tensor)
            if torch.is_grad_enabled() and isinstance(result, Tensor) and result.requires_grad and result.numel() == 1:
                seen(result, op)
            return result

        self._watcher.patches.replace(reduce, "apply", staticmethod(apply))

    def _loss(self, result: Tensor, op: Any) -> None:
        site = self._watcher.recorder.site()

        def arrived(gradient: Tensor) -> None:
            tell(float(gradient.detach().norm()))

        @self._watcher.hook
        def tell(factor: float) -> None:
            self._watcher.recorder.emit(
                Reduced,
                site=site,
                what="loss",
                operation=str(op).rpartition(".")[2].lower(),
                ranks=ranks(),
                optimizers=(),
                given=factor / self._watcher.hooks.scale,
                made=None,
            )

        result.register_hook(arrived)  # type: ignore[no-untyped-call]
