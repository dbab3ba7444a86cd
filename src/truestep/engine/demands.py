"""What the engine asks of a model, its parameters and its optimizers before it takes them; each refusal by name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.clip import Clip, NoClip
from truestep.engine.parameters import parameters_of
from truestep.engine.policy import Policy
from truestep.engine.scale import LossScale
from truestep.errors import OptimizerError, PolicyError, UsageError


def demand_model(model: Any) -> None:
    """UsageError for anything but a module whose state the engine can see."""
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is a {type(model).__name__}, and a torch.nn.Module is wanted", hint="pass the module itself")
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise UsageError(
            "a module of TorchScript hides its buffers, and a skip could not put them back",
            hint="pass the module that was scripted or traced, or torch.compile(module)",
        )


def demand_optimizers(optimizers: Sequence[Any]) -> None:
    """OptimizerError for what is no optimizer, or hides one, and for a parameter that two of them hold."""
    if not optimizers:
        raise OptimizerError("there is no optimizer in the list", hint="give at least one")
    for optimizer in optimizers:
        if not isinstance(optimizer, Optimizer):
            raise OptimizerError(
                f"the optimizer is a {type(optimizer).__name__}, and a torch.optim.Optimizer is wanted",
                hint="pass the optimizer itself, a list of them, or a function from parameters to it",
            )
        if isinstance(getattr(optimizer, "optimizer", None), Optimizer):
            raise OptimizerError(
                f"{type(optimizer).__name__} wraps another optimizer and may skip its step without saying so",
                hint="pass the wrapped one: optimizer.optimizer",
            )
    if len(parameters_of(*optimizers)) < sum(len(parameters_of(optimizer)) for optimizer in optimizers):
        raise OptimizerError(
            "two optimizers hold the same parameter, and it would be stepped twice",
            hint="give each parameter to one of them; pass each optimizer once",
        )


def demand_parameters(params: Sequence[Parameter], names: dict[int, str], *, dtypes: tuple[torch.dtype, ...]) -> torch.device:
    """The device of the parameters that take a gradient; OptimizerError or PolicyError for what the engine does not take."""
    params = [p for p in params if p.requires_grad]
    if not params:
        raise OptimizerError("the optimizer holds no parameter that takes a gradient", hint="look for requires_grad=False")
    for p in params:
        _demand_parameter(names.get(id(p), "of the optimizer"), p, dtypes)
    devices = {p.device for p in params}
    if len(devices) > 1:
        raise OptimizerError(
            f"the parameters lie on {len(devices)} devices: {', '.join(sorted(map(str, devices)))}",
            hint="put the model on one device, or make one Update and optimizer for each",
        )
    return devices.pop()


def _demand_parameter(name: str, p: Parameter, dtypes: tuple[torch.dtype, ...]) -> None:
    if p.dtype not in dtypes:
        wanted, found = (str(dtype).removeprefix("torch.") for dtype in (dtypes[0], p.dtype))
        if p.is_complex():
            hint = "hold its real view, torch.view_as_real(...), as the parameter, and make it complex in the forward"
        else:
            hint = "leave the model in float32 (no .half(), .bfloat16() or .double()): the policy casts what is to be narrow"
        raise PolicyError(
            f"parameter {name!r} is {found}, and this policy keeps {wanted} weights", hint=hint, parameter=name, dtype=found
        )
    if type(p.data) not in (Tensor, FakeTensor) or p.layout is not torch.strided:  # a fake stands for a plain one
        raise OptimizerError(
            f"parameter {name!r} is a {type(p.data).__name__} in layout {p.layout}, and the engine takes dense local tensors",
            hint="sharded and sparse parameters are not supported",
            parameter=name,
        )


def evaluates_again(optimizer: Optimizer) -> bool:
    """Whether the optimizer's step asks for a closure, to evaluate the loss at parameters that it tries (torch.optim.LBFGS).

    >>> evaluates_again(torch.optim.LBFGS([nn.Parameter(torch.ones(1))]))
    True
    """
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def demand_closures(optimizers: Sequence[Optimizer], *, policy: Policy, scale: LossScale, clip: Clip) -> bool:
    """Whether the one optimizer evaluates the loss again inside its step; OptimizerError where it then cannot be right."""
    again = [type(optimizer).__name__ for optimizer in optimizers if evaluates_again(optimizer)]
    if not again:
        return False
    for fails, what, hint in (
        (len(optimizers) > 1, "beside other optimizers", "give it an update of its own"),
        (policy.weights is not torch.float32, f"with narrow weights ({policy.name})", "use policy='fp32' or 'bf16'"),
        (
            scale.kind == "dynamic",
            "with a dynamic loss scale: an overflow in the middle of its search cannot be skipped",
            "use policy='fp32' or 'bf16', or a static scale",
        ),
        (not isinstance(clip, NoClip), "with clipping: its search needs the loss's own gradient", "leave clip= out"),
    ):
        if fails:
            raise OptimizerError(
                f"{again[0]} evaluates the loss again inside its step, which cannot be had {what}", hint=hint, optimizer=again[0]
            )
    return True
