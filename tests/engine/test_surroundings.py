"""What stands around an update changes no bit of it: torch's default device and format, modes, hooks on what is saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import graph
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import truestep
from tests.engine.loops import Batch, batch, poisoned, same, weights

Surrounding = Callable[[], AbstractContextManager[object]]


def terms(model: nn.Module, data: Batch) -> dict[str, Tensor]:
    outputs = model(data[0])
    return {"class": nn.functional.cross_entropy(outputs, data[1]), "size": outputs.float().square().mean()}


def adamw(params: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(params, lr=1e-2)


def lbfgs(params: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.LBFGS(params, max_iter=3)


def trained(policy: str, optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer], around: Surrounding) -> list[Tensor]:
    """Weights and statistics after three windows inside of `around`, the second of them poisoned."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.2), nn.Linear(6, 3))
    update = truestep.Update(
        model,
        optimizer,
        loss=terms,
        weight=lambda data: {"class": len(data[0]), "size": len(data[0])},
        check_weight=False,
        policy=policy,
        clip=None if optimizer is lbfgs else truestep.ClipNorm(0.1),
    )
    windows = [[batch(3), batch(5, 2)], [batch(3), poisoned(batch(2))], [batch(2, 3), batch(4, 4)]]
    with around():
        assert [update(window).completed for window in windows] == [True, False, True]
    return [*weights(model), *(buffer.clone() for buffer in model.buffers())]


class Dispatching(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Overriding(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def default_format() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


SURROUNDINGS: dict[str, Surrounding] = {
    "another default device": lambda: torch.device("meta"),
    "another default format": default_format,
    "a dispatch mode": Dispatching,
    "a function mode": Overriding,
    "deterministic": deterministic,
    "a named range": lambda: torch.autograd.profiler.record_function("update"),
    "no gradients": torch.no_grad,
    "gradients switched off": lambda: torch.set_grad_enabled(False),
    "another autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "saved tensors in memory": graph.save_on_cpu,
    "saved tensors copied": lambda: graph.saved_tensors_hooks(Tensor.clone, Tensor.clone),
    "no hooks on saved tensors": lambda: graph.disable_saved_tensors_hooks("none here"),
    "saved tensors that may change": graph.allow_mutation_on_saved_tensors,
    "one thread for backwards": lambda: torch.autograd.set_multithreading_enabled(False),
}


@pytest.mark.parametrize("policy", ["fp32", "bf16", "bf16-master", "bf16-pure"])
@pytest.mark.parametrize("around", SURROUNDINGS)
def test_a_surrounding_changes_no_bit(around: str, policy: str) -> None:
    assert same(trained(policy, adamw, SURROUNDINGS[around]), trained(policy, adamw, torch.enable_grad))


@pytest.mark.parametrize("around", SURROUNDINGS)
def test_a_surrounding_changes_no_bit_where_the_optimizer_evaluates_again(around: str) -> None:
    assert same(trained("fp32", lbfgs, SURROUNDINGS[around]), trained("fp32", lbfgs, torch.enable_grad))
