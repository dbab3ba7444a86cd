"""Where graphs are cut between the parameters of an optimizer and a loss, as long as no backward has reached it."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakIdKeyDictionary

from truestep.audit.events import Cut
from truestep.audit.site import Site

if TYPE_CHECKING:
    from truestep.audit.trace.parts import Watcher
    from truestep.audit.trace.tracks import Track

NODES = 2000
"""Nodes of a graph that are looked at for parameters behind a cut."""

LEAVES = frozenset(("tensor", "as_tensor", "requires_grad_", "zeros", "ones", "full", "randn", "rand"))


class Cuts:
    """Tells each cut once; silent as soon as every optimizer has been reached."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._told: set[tuple[Any, ...]] = set()
        self._blind: Site | None = None
        self._reached: set[int] = set()
        self._over = False
        self._frozen: MutableMapping[Tensor, Site | None] = WeakIdKeyDictionary()

    def install(self) -> None:
        """Notes the lines that switch differentiation off."""
        noted = self._watcher.hook(self._note)
        self._watch(torch.no_grad, "__enter__", noted)
        self._watch(torch.inference_mode, "__enter__", noted)
        self._watch(torch.set_grad_enabled, "__init__", noted)

    def follow(self, name: str, given: list[Any], made: list[Any]) -> None:
        """What one operation cuts or makes."""
        if name in ("requires_grad_", "__set__") and given and isinstance(given[0], Tensor) and given[0].is_leaf:
            self._froze(given[0])
        if name not in LEAVES and name not in ("detach", "detach_"):
            return
        if not self._waiting():
            return
        result = made[0] if made else None
        if name.startswith("detach") and given and isinstance(given[0], Tensor) and given[0].grad_fn is not None:
            behind = self._behind(given[0])
            self._tell("detached", [track for track in self._waiting() if any(id(each) in behind for each in track.parameters)])
        elif (
            name in LEAVES and isinstance(result, Tensor) and result.requires_grad and result.is_leaf and not self._known(result)
        ):
            self._emit("rebuilt", ())

    def blind(self, module: nn.Module) -> None:
        """A module runs where nothing is differentiated."""
        own = {id(each) for each in module._parameters.values() if each is not None}
        if own:
            self._tell(
                "no_grad", [track for track in self._waiting() if any(id(each) in own for each in track.parameters)], self._blind
            )

    def settle(self, track: Track) -> None:
        """An optimizer is about to step: where all that it has is frozen, that is told."""
        frozen = [each for each in track.parameters if not each.requires_grad]
        if frozen and len(frozen) == len(track.parameters):
            self._tell("frozen", [track], next((self._frozen[each] for each in frozen if each in self._frozen), None))

    def _froze(self, leaf: Tensor) -> None:
        if not leaf.requires_grad:
            self._frozen[leaf] = self._watcher.recorder.site()

    def _note(self) -> None:
        if torch.is_grad_enabled() or self._blind is None:
            self._blind = self._watcher.recorder.site()

    def _watch(self, kind: Any, name: str, noted: Any) -> None:
        original = getattr(kind, name)

        @wraps(original)
        def watched(region: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._over:
                noted()
            return original(region, *args, **kwargs)

        self._watcher.patches.replace(kind, name, watched)

    def _waiting(self) -> list[Track]:
        """The optimizers that no backward has reached."""
        if self._over:
            return []
        tracks = list(self._watcher.tracks)
        self._reached |= {track.number for track in tracks if track.backwards or track.attempts}
        waiting = [track for track in tracks if track.number not in self._reached]
        self._over = bool(tracks) and not waiting
        return waiting

    def _tell(
        self, how: Literal["detached", "no_grad", "rebuilt", "frozen"], tracks: list[Track], site: Site | None = None
    ) -> None:
        if tracks:
            self._emit(how, tuple(track.number for track in tracks), site)

    def _emit(
        self, how: Literal["detached", "no_grad", "rebuilt", "frozen"], optimizers: tuple[int, ...], site: Site | None = None
    ) -> None:
        site = site or self._watcher.recorder.site()
        key = (how, optimizers, None if site is None else site.place)
        if key not in self._told:
            self._told.add(key)
            self._watcher.recorder.emit(Cut, site=site, how=how, optimizers=optimizers)

    def _known(self, leaf: Tensor) -> bool:
        """Whether an optimizer steps it."""
        return any(leaf is each for track in self._watcher.tracks for each in track.parameters)

    def _behind(self, tensor: Tensor) -> set[int]:
        """The leaves that a tensor was made of."""
        return {id(node.variable) for node in _nodes(tensor.grad_fn) if hasattr(node, "variable")}


def _nodes(root: Any) -> Iterator[Any]:
    waiting, seen = [root], {root}
    while waiting and len(seen) < NODES:
        node = waiting.pop()
        yield node
        for child, _ in node.next_functions:
            if child is not None and child not in seen:
                seen.add(child)
                waiting.append(child)
