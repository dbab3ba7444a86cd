"""Giving the optimizer its gradient: averaged, unscaled and clipped by one multiplication, inside its own pass where it can."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from truestep.engine.gradients import FLOAT32_MAX, FLOAT32_TINY, multiply
from truestep.errors import OptimizerError, PolicyError, UsageError


def step(optimizer: Optimizer, gradients: list[Tensor], factor: float) -> None:
    """Apply the update with `gradients` times `factor`, which afterwards are the gradients in original units.

    A fused optimizer divides by its `grad_scale` in the pass that it makes anyway; any other gets one `foreach`
    multiplication. Both round once. A divisor that float32 does not hold is multiplied in, whatever the optimizer.
    """
    fused = getattr(optimizer, "_step_supports_amp_scaling", False) and all(g.get("fused") for g in optimizer.param_groups)
    if not fused or factor == 1.0 or not FLOAT32_TINY <= 1.0 / factor <= FLOAT32_MAX:
        multiply(gradients, factor)
        optimizer.step()
        return
    dividing: Any = optimizer
    dividing.grad_scale = torch.full((), 1.0 / factor, dtype=torch.float32, device=gradients[0].device)
    try:
        optimizer.step()
    finally:
        del dividing.grad_scale


def parameters_of(optimizer: Optimizer) -> list[Parameter]:
    """Every parameter of the optimizer, each once, in the order of its groups."""
    return list({id(p): p for group in optimizer.param_groups for p in group["params"]}.values())


def names_of(model: nn.Module, optimizer: Optimizer) -> dict[int, str]:
    """A name for each parameter by its id: the model's, or its place in the optimizer where the model does not own it."""
    names = {
        id(p): f"param_groups[{i}]['params'][{j}]"
        for i, group in enumerate(optimizer.param_groups)
        for j, p in enumerate(group["params"])
    }
    return names | {id(p): name for name, p in model.named_parameters()}


def demand_optimizer(model: nn.Module, optimizer: Any) -> torch.device:
    """The device of the optimizer's parameters; OptimizerError or PolicyError, by name, for what the engine does not take."""
    _demand_model(model)
    if not isinstance(optimizer, Optimizer):
        raise OptimizerError(
            f"the optimizer is a {type(optimizer).__name__}, and a torch.optim.Optimizer is wanted",
            hint="pass the optimizer itself, built from the model's parameters",
        )
    if isinstance(getattr(optimizer, "optimizer", None), Optimizer):
        raise OptimizerError(
            f"{type(optimizer).__name__} wraps another optimizer and may skip its step without saying so",
            hint="pass the wrapped one: optimizer.optimizer",
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise OptimizerError(
            "LBFGS evaluates the loss again inside its step, and one attempt has one gradient",
            hint="use an optimizer that steps from one gradient, such as torch.optim.AdamW",
        )
    params = [p for p in parameters_of(optimizer) if p.requires_grad]
    if not params:
        raise OptimizerError("the optimizer holds no parameter that takes a gradient", hint="look for requires_grad=False")
    names = names_of(model, optimizer)
    for p in params:
        _demand_parameter(names[id(p)], p)
    devices = {p.device for p in params}
    if len(devices) > 1:
        raise OptimizerError(
            f"the parameters lie on {len(devices)} devices: {', '.join(sorted(map(str, devices)))}",
            hint="put the model on one device, or make one Update and optimizer for each",
        )
    return devices.pop()


def _demand_model(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise UsageError(f"the model is a {type(model).__name__}, and a torch.nn.Module is wanted", hint="pass the module itself")
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise UsageError(
            "a module of TorchScript hides its buffers, and a skip could not put them back",
            hint="pass the module that was scripted or traced, or torch.compile(module)",
        )


def _demand_parameter(name: str, p: Parameter) -> None:
    if p.dtype is not torch.float32:
        raise PolicyError(
            f"parameter {name!r} is {str(p.dtype).removeprefix('torch.')}, and these policies keep float32 weights",
            hint="leave the model in float32 (no .half(), .bfloat16() or .double()): autocast casts what it computes",
            parameter=name,
            dtype=str(p.dtype).removeprefix("torch."),
        )
    if type(p.data) is not Tensor or p.layout is not torch.strided:
        raise OptimizerError(
            f"parameter {name!r} is a {type(p.data).__name__} in layout {p.layout}, and the engine takes dense local tensors",
            hint="sharded and sparse parameters are not supported",
            parameter=name,
        )
