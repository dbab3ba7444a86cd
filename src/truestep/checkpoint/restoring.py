"""Puts a checkpoint's state into the objects of an update: all of it or nothing."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from truestep.checkpoint import fit, plain
from truestep.checkpoint.file import Checkpoint, is_ours, loaded, opened, read_checkpoint, why
from truestep.checkpoint.gathering import model_state, passing_buffers, set_passing_buffers
from truestep.engine.randomness import absent, random_state, set_random_state
from truestep.engine.update import Update
from truestep.errors import CheckpointError


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What was restored, and from where."""

    path: Path
    attempts: int
    """The update's, now."""
    quality: float | None
    """What the checkpoint was saved with; None: nothing."""
    parts: Mapping[str, Any]
    """The plain values by name; tensors lie on the CPU."""
    found: tuple[str, ...]
    """What was put back, in words."""
    missing: tuple[str, ...]
    """What the file does not hold, or this process has no place for: it is as it was before."""
    refused: tuple[tuple[Path, str], ...] = ()
    """Files that were passed over, each with the reason."""


@dataclass(frozen=True, kw_only=True)
class _Step:
    """One object to load, and its present state for the case that a later one fails."""

    name: str
    holds: tuple[str, ...]
    """What `Restored.found` says of it."""
    state: Any
    load: Callable[[Any], object]
    now: Callable[[], Any]
    undo: Callable[[Any], object] | None = None
    """Puts the present state back; None: `load` does."""


def restore(path: str | os.PathLike[str], update: Update[Any], /, **parts: Any) -> Restored:
    """Put `update` and `parts` where the file at `path` left them: one of truestep's checkpoints, or a plain one of torch's.

    A plain one is what torch.save wrote of a dictionary with the state dicts "model", "optimizer", "scheduler" and "scaler"
    (torch.amp.GradScaler's), also as model_state_dict and so on, or of a model's state dict alone. What it does not hold stays
    as it is and is told in `missing`: counts and random states at the least.

    Args:
        parts: The objects that were saved under these names. Plain values come back in `restored.parts`.

    Raises:
        CheckpointError: the file cannot be used, or belongs to another model, optimizer, scheduler, policy or parts; nothing
            has changed then.

    >>> import truestep, torch
    >>> from tempfile import TemporaryDirectory
    >>> model = torch.nn.Linear(2, 1)
    >>> update = truestep.Update(model, torch.optim.SGD(model.parameters()), loss=lambda model, x: model(x).mean())
    >>> with TemporaryDirectory() as folder:
    ...     torch.save({"model_state_dict": torch.nn.Linear(2, 1).state_dict(), "epoch": 3}, f"{folder}/theirs.pt")
    ...     restored = truestep.restore(f"{folder}/theirs.pt", update)
    >>> restored.found, restored.missing, restored.parts
    (('model',), ('optimizer', 'counts', 'random state'), {'epoch': 3})
    """
    path = Path(path)
    with opened(path) as file:
        content = None if is_ours(file) else loaded(path, file)
    if content is None:
        return restore_checkpoint(read_checkpoint(path), update, parts)
    return restore_state(path, plain.state_of(path, content, parts, has_scale=update.scale.kind == "dynamic"), update, parts)


def restore_checkpoint(
    checkpoint: Checkpoint, update: Update[Any], parts: Mapping[str, Any], *, refused: Sequence[tuple[Path, str]] = ()
) -> Restored:
    """`restore` from a checkpoint of truestep's that was read."""
    restored = restore_state(checkpoint.path, checkpoint.state, update, parts)
    return replace(restored, quality=checkpoint.description.quality, refused=tuple(refused))


def restore_state(path: Path, state: Mapping[str, Any], update: Update[Any], parts: Mapping[str, Any]) -> Restored:
    """Load `state`, of which any kind but the model may be absent, and tell what it was.

    CheckpointError where something does not fit or does not take its state; nothing has changed then.
    """
    _demand_fits(path, state, update)
    fit.demand_fitting_parts(path, state["parts"], parts)
    for name, part in parts.items():
        if isinstance(part, Update):
            _demand_fits(path, state["parts"][name]["value"], part)
    steps = list(_steps(state, update, parts))
    _load(path, steps)
    found = tuple(name for step in steps for name in step.holds)
    return Restored(
        path=path,
        attempts=update.counts.attempts,
        quality=None,
        parts={name: part["value"] for name, part in state["parts"].items() if not part["has_state"]},
        found=found,
        missing=(*(name for name in _wanted(update) if name not in found), *absent(state.get("random"))),
    )


def _demand_fits(path: Path, state: Mapping[str, Any], update: Update[Any]) -> None:
    """CheckpointError where a state is of another policy, model, optimizer or scheduler; a plain file tells of no policy."""
    if state["policy"] is not None:
        fit.demand_fitting_policy(path, state["policy"], update)
    fit.demand_fitting_model(path, state["model"], model_state(update))
    fit.demand_fitting_optimizers(path, state["optimizers"], update)
    fit.demand_fitting_schedulers(path, state["schedulers"], update)


def _steps(state: Mapping[str, Any], update: Update[Any], parts: Mapping[str, Any]) -> Iterator[_Step]:
    """What is loaded, in this order: a part may draw, so that random states come last."""
    yield from _steps_of(state, update)
    for name, part in parts.items():
        value = state["parts"][name]["value"]
        if isinstance(part, Update):
            for step in _steps_of(value, part):
                holds = tuple(f"{held} of part {name!r}" for held in step.holds)
                yield replace(step, name=f"{step.name} of part {name!r}", holds=holds)
        else:
            yield _step(f"part {name!r}", value, part)
    if state["random"] is not None:
        yield _Step(name="random state", holds=("random state",), state=state["random"], load=set_random_state, now=random_state)


def _steps_of(state: Mapping[str, Any], update: Update[Any]) -> Iterator[_Step]:
    """What an update is made of; it comes last itself, and takes its schedulers to stand where they belong."""
    yield replace(
        _step("model", state["model"], update.model), load=partial(_load_model, update), now=partial(model_state, update)
    )
    if state["buffers"]:
        yield _Step(
            name="the buffers beside the model's state",
            holds=(),
            state=state["buffers"],
            load=partial(set_passing_buffers, update.model),
            now=partial(passing_buffers, update.model),
        )
    for name, entry, optimizer in zip(
        _numbered("optimizer", update.optimizers), state["optimizers"] or (), update.optimizers, strict=False
    ):
        yield replace(_step(name, entry["state"], optimizer), load=partial(_load_optimizer, update, optimizer))
    for name, entry, scheduler in zip(
        _numbered("scheduler", update.schedulers), state["schedulers"] or (), update.schedulers, strict=False
    ):
        yield _step(name, entry["state"], scheduler)
    own = state["update"]
    yield replace(
        _step("update", update.state_dict() if own is None else own, update), holds=_held_by(own), undo=partial(_undo, update)
    )


def _step(name: str, state: Any, thing: Any) -> _Step:
    return _Step(name=name, holds=(name,), state=state, load=thing.load_state_dict, now=thing.state_dict)


def _undo(update: Update[Any], state: Mapping[str, Any]) -> None:
    """Its old state mends no step that was torn before."""
    torn = update.plan.store.all_or_none.torn
    update.load_state_dict(state)
    update.plan.store.all_or_none.torn = torn


def _load_model(update: Update[Any], state: Mapping[str, Any]) -> None:
    with update.in_float32():  # a write reaches the masters
        update.model.load_state_dict(state)


def _load_optimizer(update: Update[Any], optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """Beside float32 weights, for torch casts every state to the format of its parameter, numbers that count included.

    Moments are laid out as their parameters: a fused step goes through both in the order of memory.
    """
    with update.in_float32():
        optimizer.load_state_dict(state)  # type: ignore[arg-type]  # torch's says dict
        for p, held, key, value in _tensors_of(optimizer):
            if value.shape == p.shape and value.stride() != p.stride():
                held[key] = torch.empty_like(p, dtype=value.dtype).copy_(value)
    for p, held, key, value in _tensors_of(optimizer):  # moments that were saved narrow lose nothing by it
        if value.dim() and value.dtype is torch.float32 and p.dtype is not torch.float32:
            narrow = value.to(p.dtype)
            held[key] = narrow if torch.equal(narrow.float(), value) else value


def _tensors_of(optimizer: Optimizer) -> list[tuple[Tensor, dict[str, Any], str, Tensor]]:
    """Each tensor of an optimizer's state: its parameter, and where it is kept, under which key."""
    states = [(p, held) for p, held in optimizer.state.items() if isinstance(held, dict)]
    return [(p, held, key, value) for p, held in states for key, value in held.items() if isinstance(value, Tensor)]


def _held_by(update_state: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What a state of the update tells: a GradScaler's knows no counts."""
    if update_state is None:
        return ()
    return ("loss scale",) if "_growth_tracker" in update_state else ("loss scale", "counts")


def _wanted(update: Update[Any]) -> list[str]:
    """What it takes to go on bit for bit."""
    objects = [*_numbered("optimizer", update.optimizers), *_numbered("scheduler", update.schedulers)]
    return ["model", *objects, *(["loss scale"] if update.scale.kind == "dynamic" else []), "counts", "random state"]


def _numbered(one: str, objects: Sequence[Any]) -> list[str]:
    return [one] if len(objects) == 1 else [f"{one} {number}" for number in range(len(objects))]


def _load(path: Path, steps: Sequence[_Step]) -> None:
    """Take the steps, or none of them: where one fails, those before it and the half of it that was done are undone."""
    before = [_copied(step.now()) for step in steps]
    begun: list[tuple[_Step, Any]] = []
    try:
        for step, old in zip(steps, before, strict=True):
            begun.append((step, old))
            step.load(step.state)
    except BaseException as error:  # Ctrl-C too
        lost = [step.name for step, old in reversed(begun) if not _undone(step, old)]
        if not isinstance(error, Exception):
            raise
        name = begun[-1][0].name
        found = f"{name} does not take its state: {why(error)}"
        if lost:
            raise CheckpointError(
                f"{path}: {found}; nor did it take what it was before: {', '.join(lost)}",
                hint=f"look at the load_state_dict of {name}; everything else is as it was",
                path=str(path),
                name=name,
            ) from error
        raise fit.misfit(path, found, f"look at the {name}", name=name) from error


def _undone(step: _Step, old: Any) -> bool:
    """Whether an object took its former state back: one that does not is no reason to leave the others."""
    try:
        (step.undo or step.load)(old)
    except Exception:  # its own load_state_dict may raise anything
        return False
    return True


def _copied(value: Any) -> Any:
    """A copy in main memory, where there is room for what is about to be replaced."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        copied = copy.copy(value)  # of its own kind: torch keeps a version beside a model's state
        copied.update({key: _copied(item) for key, item in value.items()})
        return copied
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    return copy.deepcopy(value)
