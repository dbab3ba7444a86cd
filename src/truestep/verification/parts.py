"""What a model and its optimizers are made of at one moment, and whether that is so still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from truestep.probe.buffers import Buffers


class Parts:
    """The parameters and buffers of a model, and what its optimizers hold.

    They may be others at the next attempt. To walk through a model and name what it holds takes several times as long as to
    compare what stands in the modules' own dictionaries.
    """

    def __init__(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        self._optimizers = optimizers
        self._modules = list(model.modules())  # held here, for the id of one that is gone may come again
        self._contents = [held for module in self._modules for held in (module._modules, module._parameters, module._buffers)]
        self.tensors: list[Tensor] = [each for content in self._contents for each in content.values() if isinstance(each, Tensor)]
        """Parameters and buffers; one that is shared more than once."""
        self._model = model
        own = any(not type(module).__module__.startswith("torch.") for module in self._modules)
        self._buffers = None if own else Buffers(model)
        self._found = self._look()

    @property
    def same(self) -> bool:
        """Whether nothing has come, gone, or been frozen since."""
        return self._look() == self._found

    @property
    def buffers(self) -> Buffers:
        """To keep and restore. New ones each time where a module may tell by an attribute of its own, as torch's do not."""
        return Buffers(self._model) if self._buffers is None else self._buffers

    def _look(self) -> tuple[list[Any], ...]:
        stepped = [p for optimizer in self._optimizers for group in optimizer.param_groups for p in group["params"]]
        return (
            [name for content in self._contents for name in content],
            [id(held) for content in self._contents for held in content.values()],
            [id(p) for p in stepped],
            [each.requires_grad for each in (*stepped, *self.tensors)],
        )
