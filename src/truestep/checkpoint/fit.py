"""Whether a saved state fits what it is to be loaded into: what belongs to something else is refused, and nothing changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from truestep.checkpoint.gathering import has_state, kind, parameter_names
from truestep.engine.update import Update
from truestep.errors import CheckpointError


def misfit(path: Path, found: str, hint: str, **facts: Any) -> CheckpointError:
    """The error of a whole file that belongs to something else."""
    return CheckpointError(f"{path}: {found}", hint=f"{hint}; nothing has changed", path=str(path), **facts)


def demand_fitting_policy(path: Path, saved: str, update: Update[Any]) -> None:
    """Another policy goes on with other numbers."""
    ours = update.plan.policy.name
    if saved != ours:
        hint = f'build the update with policy="{saved}", or load the model alone from truestep.read_checkpoint'
        raise misfit(path, f"it was saved under the policy {saved}, and this update's is {ours}", hint, saved=saved, ours=ours)


def demand_fitting_model(path: Path, saved: Any, ours: Mapping[str, Any]) -> None:
    """The same names, and tensors of the same shapes and formats under them; the first that differs is told."""
    hint = "build the model that was saved"
    if not isinstance(saved, Mapping):
        raise misfit(path, f"the model's state is a {type(saved).__name__}", hint)
    for name in (*ours, *saved):
        if name not in saved or name not in ours:
            where, other = ("the model", "the file") if name in ours else ("the file", "the model")
            raise misfit(path, f"{where} has {name!r}, and {other} has not", f"{hint}{_prefixed(saved, ours)}", parameter=name)
        if isinstance(ours[name], Tensor) and isinstance(saved[name], Tensor):
            _demand_tensor(path, name, saved[name], ours[name], hint)


def _demand_tensor(path: Path, name: str, saved: Tensor, ours: Tensor, hint: str) -> None:
    for what in ("shape", "dtype"):
        theirs, mine = (str(getattr(tensor, what)).removeprefix("torch.") for tensor in (saved, ours))
        if theirs != mine:
            found = f"the {what} of {name!r} is {theirs} in the file and {mine} in the model"
            if what == "dtype" and mine == "float32":
                hint = "save the model inside `with update.in_float32():`, where its weights, masters included, are float32"
            raise misfit(path, found, hint, parameter=name, saved=theirs, ours=mine)


def _prefixed(saved: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """What to do where the file's names are the model's behind one more word, as a wrapper (DDP, torch.compile) makes them."""
    for longer, shorter, do in ((saved, ours, "take it off the names in the file"), (ours, saved, "give Update what is inside")):
        prefix = next(iter(longer), "").partition(".")[0] + "."
        if {f"{prefix}{name}" for name in shorter} == set(longer):
            return f": the names differ by {prefix!r}, which a wrapper puts before them; {do}"
    return ""


def demand_fitting_optimizers(path: Path, saved: Sequence[Mapping[str, Any]] | None, update: Update[Any]) -> None:
    """As many, of the same classes, over the same parameters in the same order; nothing where the file holds none (None)."""
    if saved is None:
        return
    _demand_kinds(path, "optimizer", saved, update.optimizers)
    for entry, optimizer in zip(saved, update.optimizers, strict=False):
        names, groups = parameter_names(update, optimizer), entry["state"].get("param_groups", [])
        theirs = entry["parameters"] or [[None] * len(group["params"]) for group in groups]
        mine = names if entry["parameters"] else [[None] * len(group) for group in names]
        if theirs != mine:
            what = "in another order" if sorted(map(len, theirs)) == sorted(map(len, mine)) else "others, or grouped otherwise"
            found = (
                f"the parameters of the {kind(optimizer)} are {what}: groups of {_sizes(theirs)} in the file, {_sizes(mine)} here"
            )
            raise misfit(path, found, "build the optimizer from the parameters that it was saved with, in their order")


def demand_fitting_schedulers(path: Path, saved: Sequence[Mapping[str, Any]] | None, update: Update[Any]) -> None:
    """As many, of the same classes; nothing where the file holds none (None)."""
    if saved is not None:
        _demand_kinds(path, "scheduler", saved, update.schedulers)


def demand_fitting_parts(path: Path, saved: Mapping[str, Mapping[str, Any]], parts: Mapping[str, Any]) -> None:
    """Each part that is given was saved, each that has a state is given, and nothing is given for a plain value."""
    listed = ", ".join(saved) or "none"
    for name, part in parts.items():
        if name not in saved:
            raise misfit(path, f"it holds no part {name!r}", f"it holds: {listed}", part=name)
        if not (saved[name]["has_state"] and has_state(part)):
            hint = f"leave {name}= out and take restored.parts[{name!r}]"
            raise misfit(path, f"part {name!r} is a plain value, there or here, and is not loaded into anything", hint, part=name)
    for name, part in saved.items():
        if part["has_state"] and name not in parts:
            raise misfit(
                path, f"it holds the state of a part {name!r}, which is not given", f"give restore(..., {name}=...)", part=name
            )


def _demand_kinds(path: Path, one: str, saved: Sequence[Mapping[str, Any]], ours: Sequence[Any]) -> None:
    theirs, mine = [entry["kind"] for entry in saved], [kind(thing) for thing in ours]
    hint = f"build the {one}s that were saved, in their order"
    if len(theirs) != len(mine):
        found = f"it holds {len(theirs)} {one}{'s' * (len(theirs) != 1)}, and the update has {len(mine)}"
        raise misfit(path, found, hint, saved=len(theirs), ours=len(mine))
    for number, (saved_kind, our_kind) in enumerate(zip(theirs, mine, strict=True)):
        if saved_kind not in (None, our_kind):
            found = f"{one} {number} is a {saved_kind} in the file and a {our_kind} here"
            raise misfit(path, found, hint, saved=saved_kind, ours=our_kind)


def _sizes(groups: Sequence[Sequence[Any]]) -> str:
    return " + ".join(str(len(group)) for group in groups) or "none"
