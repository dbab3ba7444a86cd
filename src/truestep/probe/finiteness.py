"""The first input, parameter or module that is not finite."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from truestep.probe.tree import leaves

COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


@dataclass(frozen=True)
class Culprit:
    """A module whose output stopped being finite while its inputs still were."""

    name: str
    kind: str
    value: str
    """What stood in the output: "inf", "-inf" or "nan"."""


def not_finite(tensor: Tensor) -> str | None:
    """What `tensor` holds that is not finite, an infinity before a NaN; None where all is finite or it holds integers."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_meta:
        return None
    elements = _elements(tensor.detach())
    if bool(torch.isfinite(elements).all()):
        return None
    if bool(torch.isposinf(elements).any()):
        return "inf"
    return "-inf" if bool(torch.isneginf(elements).any()) else "nan"


def _elements(tensor: Tensor) -> Tensor:
    """The stored numbers, real, and in a format that every operation takes."""
    if tensor.layout is torch.sparse_coo:
        tensor = tensor._values()
    elif tensor.layout in COMPRESSED or tensor.is_nested:
        tensor = tensor.values()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.float() if tensor.element_size() == 1 else tensor


def first_input(tree: Any) -> tuple[str, str] | None:
    """The path and value of the first array in `tree` that is not finite, such as ("['x']", "nan"); None where there is none.

    Masks are passed: -inf among finite numbers, outside of any graph, is how attention is told where not to look.
    """
    for path, leaf in leaves(tree):
        tensor = torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc" else leaf
        value = not_finite(tensor) if isinstance(tensor, Tensor) else None
        if value is not None and not (value == "-inf" and _is_mask(tensor)):
            return path, value
    return None


def _is_mask(tensor: Tensor) -> bool:
    return not tensor.requires_grad and not bool(torch.isnan(_elements(tensor)).any())


def first_parameter(model: nn.Module) -> tuple[str, str] | None:
    """The name and value of the first parameter of `model` that is not finite; None where there is none. Frozen masks pass."""
    for name, parameter in model.named_parameters():
        value = not_finite(parameter)
        if value is not None and not (value == "-inf" and _is_mask(parameter)):
            return name, value
    return None


def first_module(model: nn.Module, forward: Callable[[], object]) -> Culprit | None:
    """Run `forward` and name the first module whose output is not finite though its inputs are; None where there is none.

    The innermost such module is named. One that put out -inf, as masked scores are, is named only where no other is.
    Compiled modules run uncompiled; modules of TorchScript cannot be watched.
    """
    search = _Search()
    try:
        for name, module in model.named_modules():
            search.watch(name, module)
        with _uncompiled():
            forward()
    finally:
        search.end()
    return search.found.get(False) or search.found.get(True)


class _Search:
    """Hooks around every module; `found` is the first culprit, by whether it put out -inf."""

    def __init__(self) -> None:
        self.found: dict[bool, Culprit] = {}
        self._running: list[tuple[bool, int]] = []
        self._hooks: list[RemovableHandle] = []

    def watch(self, name: str, module: nn.Module) -> None:
        """Judge the inputs of `module` before it runs, for it may write into them, and its output afterwards."""

        def before(module: nn.Module, inputs: Any, named: Any) -> None:
            clean = False not in self.found and first_input((inputs, named)) is None
            self._running.append((clean, len(self.found)))

        def after(module: nn.Module, inputs: Any, named: Any, output: Any) -> None:
            clean, found_before = self._running.pop()
            bad = first_input(output) if clean and found_before == len(self.found) else None
            if bad is not None:
                self.found.setdefault(bad[1] == "-inf", Culprit(name or "the model", type(module).__name__, bad[1]))

        if not isinstance(module, torch.jit.ScriptModule):
            self._hooks.append(module.register_forward_pre_hook(before, with_kwargs=True))
            self._hooks.append(module.register_forward_hook(after, with_kwargs=True))

    def end(self) -> None:
        """Take the hooks away."""
        for hook in self._hooks:
            hook.remove()


def _uncompiled() -> AbstractContextManager[object]:
    """Run what torch.compile has wrapped as it is written; nothing where nothing can be compiled yet."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
