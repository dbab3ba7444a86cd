"""The short way into torch's engine gives what the long one gives, and goes past nobody who has something to say there."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.overrides import TorchFunctionMode

import truestep
from tests.engine.loops import batch, cross_entropy, mlp
from truestep.engine import backward as room
from truestep.engine.backward import backward
from truestep.errors import GradientError

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def losses_of(params: list[Parameter], dtype: torch.dtype) -> list[Tensor]:
    """Two losses that share a part of their graph."""
    shared = (params[0] * params[1]).sin()
    return [shared.sum().to(dtype), (shared.square() * params[2]).mean().to(dtype)]


def parameters() -> list[Parameter]:
    torch.manual_seed(0)
    return [Parameter(torch.randn(5, 3)) for _ in range(3)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "factors",
    [(1.0, 1.0), (1 / 3, 65536 * 7 / 11), (2.0**-30, 3.0), (2.0**-149, 2.0**-126 / 3), (2.0**127 * 256, 1.0), (1.0, -1e300)],
)
def test_a_factor_as_the_seed_gives_the_bits_of_a_product(dtype: torch.dtype, factors: tuple[float, float]) -> None:
    ours, theirs = parameters(), parameters()
    for _ in range(2):  # the second adds to the first
        backward(losses_of(ours, dtype), factors, ours)
        scaled = [loss.float() * factor for loss, factor in zip(losses_of(theirs, dtype), factors, strict=True)]
        torch.autograd.backward(scaled, inputs=theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert one.grad is not None
        assert torch.equal(one.grad.view(torch.int32), other.grad.view(torch.int32))  # bits: a NaN equals itself


def test_a_factor_beyond_float32_is_a_skip_after_which_the_scale_shrinks() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    update = truestep.Update(model, optimizer, loss=cross_entropy, scale=truestep.LossScale.dynamic(init=2.0**127))
    with update.attempt() as attempt:
        for examples in (1, 4):  # the second at a share of 4
            attempt.backward(cross_entropy(model, batch(examples)), examples)
    assert attempt.outcome.skip.reason is truestep.Reason.BACKWARD
    assert update.scale.value == 2.0**126


def test_nothing_but_the_parameters_gets_a_gradient() -> None:
    first, second, third = parameters()
    backward(losses_of([first, second, third], torch.float32), (1.0, 1.0), [second])
    assert second.grad is not None
    assert first.grad is None
    assert third.grad is None


def test_no_parameters_at_all_are_not_taken_for_every_leaf() -> None:
    params = parameters()
    with pytest.raises(GradientError, match="takes a gradient any more"):
        backward(losses_of(params, torch.float32), (1.0, 1.0), [])
    assert all(p.grad is None for p in params)


class Overriding(nn.Parameter):
    """A parameter whose class has a say in every call of torch."""

    called: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.called.append(func)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class Listening(TorchFunctionMode):
    """A mode that has one."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.called.append(func)
        return func(*args, **(kwargs or {}))


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways that backwards took."""
    taken: list[str] = []
    short, long = room._RUN, room._TORCHS
    assert short is not None, (
        "torch has no such entrance any more: every backward goes the long way, and engine/backward.py can go"
    )

    def counted(*args: Any, **kwargs: Any) -> Any:
        taken.append("engine")
        return short(*args, **kwargs)

    monkeypatch.setattr(room, "_RUN", counted)
    assert torch.autograd.backward is long
    return taken


def test_plain_tensors_go_the_short_way(ways: list[str]) -> None:
    params = parameters()
    backward(losses_of(params, torch.float32), (1.0, 1.0), params)
    assert ways == ["engine"]


def test_a_class_of_parameters_that_overrides_torch_is_asked(ways: list[str]) -> None:
    params = [Parameter(torch.ones(2)), Overriding(torch.ones(2)), Parameter(torch.ones(2))]
    losses = losses_of(params, torch.float32)
    Overriding.called.clear()
    backward([loss.as_subclass(Tensor) for loss in losses], (1.0, 1.0), params)
    assert torch.autograd.backward in Overriding.called
    assert not ways


def test_a_mode_that_overrides_torch_is_asked(ways: list[str]) -> None:
    params = parameters()
    losses = losses_of(params, torch.float32)
    with Listening() as listening:
        backward(losses, (1.0, 1.0), params)
    assert torch.autograd.backward in listening.called
    assert not ways


def test_a_backward_that_stands_in_the_place_of_torchs_is_called(ways: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, seen = torch.autograd.backward, []

    def watched(*args: Any, **kwargs: Any) -> None:
        seen.append(kwargs)
        theirs(*args, **kwargs)

    monkeypatch.setattr(torch.autograd, "backward", watched)
    params = parameters()
    backward(losses_of(params, torch.float32), (1.0, 1.0), params)
    assert len(seen) == 1
    assert not ways


def test_one_that_stood_there_before_this_was_imported_is_called_too(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, seen = torch.autograd.backward, []

    def watched(*args: Any, **kwargs: Any) -> None:
        seen.append(kwargs)
        theirs(*args, **kwargs)

    try:
        with monkeypatch.context() as patched:
            patched.setattr(torch.autograd, "backward", watched)
            importlib.reload(room)
            params = parameters()
            room.backward(losses_of(params, torch.float32), (1.0, 1.0), params)
    finally:
        importlib.reload(room)
    assert len(seen) == 1
    assert room._RUN is not None


def test_inside_a_transform_of_functions_torch_says_what_it_says(ways: list[str]) -> None:
    params = parameters()

    def inside(x: Tensor) -> Tensor:
        backward(losses_of(params, torch.float32), (1.0, 1.0), params)
        return x

    with pytest.raises(RuntimeError, match="functorch transform"):
        torch.func.vmap(inside)(torch.ones(2))
    assert not ways
