"""The first input, parameter or module that is not finite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from truestep.probe.tree import leaves


@dataclass(frozen=True)
class Culprit:
    """A module whose output stopped being finite while its inputs still were."""

    name: str
    kind: str
    value: str
    """What stood in the output: "inf", "-inf" or "nan"."""


def not_finite(tensor: Tensor) -> str | None:
    """What `tensor` holds that is not finite, an infinity before a NaN; None where all is finite or it holds integers."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or bool(torch.isfinite(tensor).all()):
        return None
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    if bool(torch.isposinf(real).any()):
        return "inf"
    return "-inf" if bool(torch.isneginf(real).any()) else "nan"


def first_input(tree: Any) -> tuple[str, str] | None:
    """The path and value of the first tensor in `tree` that is not finite, such as ("['x']", "nan"); None where there is none."""
    for path, leaf in leaves(tree):
        value = not_finite(leaf) if isinstance(leaf, Tensor) else None
        if value is not None:
            return path, value
    return None


def first_parameter(model: nn.Module) -> tuple[str, str] | None:
    """The name and value of the first parameter of `model` that is not finite; None where there is none."""
    for name, parameter in model.named_parameters():
        value = not_finite(parameter.detach())
        if value is not None:
            return name, value
    return None


def first_module(model: nn.Module, forward: Callable[[], object]) -> Culprit | None:
    """Run `forward` and name the first module whose output is not finite though its inputs are; None where there is none.

    The innermost such module is named: a module ends after the modules in it.
    """
    found: list[Culprit] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Any, Any], None]:
        def after(module: nn.Module, inputs: Any, named_inputs: Any, output: Any) -> None:
            if not found and first_input((inputs, named_inputs)) is None:
                bad = first_input(output)
                if bad is not None:
                    found.append(Culprit(name or "the model", type(module).__name__, bad[1]))

        return after

    hooks = [module.register_forward_hook(watch(name), with_kwargs=True) for name, module in model.named_modules()]
    try:
        forward()
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else None
