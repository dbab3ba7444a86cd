"""Reads the checkpoints that loops by hand write: one torch.save of a dictionary of state dicts, under the usual names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from truestep.checkpoint.fit import misfit

NAMES = {
    "model": ("model", "model_state_dict", "state_dict"),
    "optimizer": ("optimizer", "optimizer_state_dict"),
    "scheduler": ("scheduler", "scheduler_state_dict", "lr_scheduler"),
    "scaler": ("scaler", "scaler_state_dict", "grad_scaler"),
}
"""Under which names each state dict is looked for; under two at once is an error, and nothing else is guessed."""


def state_of(path: Path, content: Any, parts: Mapping[str, Any], *, has_scale: bool) -> dict[str, Any]:
    """`content` as a checkpoint of truestep's holds it, with None for what is not there; the rest are parts.

    A GradScaler's state is left out where the update has no dynamic scale to take it.

    Raises:
        CheckpointError: it holds no model, or one of the states twice.
    """
    if not isinstance(content, Mapping):
        raise misfit(path, f"it holds a {type(content).__name__}", f"what is read: {_readable()}")
    if content and all(isinstance(value, Tensor) for value in content.values()):
        content = {"model": content}
    found = {what: _only(path, content, what) for what in NAMES}
    if found["model"] is None:
        listed = ", ".join(map(repr, content)) or "nothing"
        raise misfit(path, f"it holds no model, but {listed}", f"what is read: {_readable()}")
    used = {name for what in NAMES.values() for name in what if name in content}
    return {
        "policy": None,
        "model": found["model"],
        "buffers": None,
        "optimizers": _entries(path, found, "optimizer"),
        "schedulers": _entries(path, found, "scheduler"),
        "update": (found["scaler"] or None) if has_scale else None,  # a disabled GradScaler's is empty
        "random": None,
        "parts": {str(name): {"has_state": name in parts, "value": value} for name, value in content.items() if name not in used},
    }


def _only(path: Path, content: Mapping[Any, Any], what: str) -> Any:
    there = [name for name in NAMES[what] if name in content]
    if len(there) > 1:
        raise misfit(path, f"it holds a {what} twice, as {' and '.join(map(repr, there))}", "save one of them", what=what)
    return content[there[0]] if there else None


def _entries(path: Path, found: Mapping[str, Any], what: str) -> list[dict[str, Any]] | None:
    """One state dict, or a list of them; a plain file does not tell of which class, nor of which parameters."""
    if found[what] is None:
        return None
    states = found[what] if isinstance(found[what], (list, tuple)) else [found[what]]
    if not all(isinstance(state, Mapping) for state in states):
        raise misfit(path, f"what it holds as {what} is no state dict", f"save {what}.state_dict()", what=what)
    return [{"kind": None, "parameters": None, "state": state} for state in states]


def _readable() -> str:
    return "a model's state dict, or a dictionary with " + ", ".join(f"{what!r}" for what in NAMES)
