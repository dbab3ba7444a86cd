"""What is float16 and what is float32 while a model trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import truestep
from truestep.labs.asking.ask import Buckets, Choice, Open, Option
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

KINDS = (
    "weights of the model",
    "activation of a product",
    "gradient of that activation",
    "gradient of a weight",
    "gradient at the optimizer",
    "weights that are stepped",
    "Adam's moments",
)
FIRST, LAST = "weight, activation, its gradient, .grad", "gradient, weights, moments at the step"
LOW, HIGH = "float16", "float32"
DERIVED = {
    "fp32": (HIGH,) * 7,
    "fp16": (HIGH, LOW, LOW, HIGH, HIGH, HIGH, HIGH),
    "fp16-master": (LOW, LOW, LOW, LOW, HIGH, HIGH, HIGH),
}
REASONS = {
    "fp32": "nothing is cast",
    "fp16": "autocast casts a copy of the weight; the cast's own backward returns to float32, so `.grad` is float32",
    "fp16-master": "the model holds float16 weights, and a leaf's `.grad` has the leaf's format",
}
FORMATS_OF = "format of each tensor, by policy"
LR = 1e-4


def shows() -> Shown:
    """The formats of an attempt's tensors under each policy."""
    found = {policy: formats(policy) for policy in DERIVED}
    checks = []
    for policy in ("fp16", "fp16-master"):
        for words, part in ((FIRST, slice(4)), (LAST, slice(4, None))):
            check = Check(
                what=f"{policy}: {words}",
                expected=DERIVED[policy][part],
                measured=found[policy][part],
                because=REASONS[policy] if words is FIRST else "the step adds small to large, and is made in float32 for that",
            )
            checks.append(check)
    rows = tuple((kind, *(found[policy][place] for policy in DERIVED)) for place, kind in enumerate(KINDS))
    table = Table(title=FORMATS_OF, columns=("tensor", *DERIVED), rows=rows)
    return Shown(checks=tuple(checks), wrong=(_half_adam(), _half_sgd()), edges=(_no_product(),), tables=(table,))


def formats(policy: str) -> tuple[str, ...]:
    """The format of each of `KINDS`, in one attempt of a linear model with Adam."""
    seen: dict[str, Any] = {}
    model = torch.nn.Linear(2, 2, bias=False)

    def loss(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = model(x)
        seen["activation of a product"] = out.dtype
        out.register_hook(lambda grad: seen.update({KINDS[2]: grad.dtype}))  # type: ignore[no-untyped-call]  # torch's is untyped
        return out.float().mean()

    optimizers: list[torch.optim.Optimizer] = []

    def adam(parameters: list[torch.nn.Parameter]) -> torch.optim.Optimizer:
        optimizers.append(torch.optim.Adam(parameters))
        return optimizers[-1]

    update = truestep.Update(model, adam, loss=loss, policy=policy)
    seen["weights of the model"] = model.weight.dtype
    model.weight.register_hook(lambda grad: seen.update({KINDS[3]: grad.dtype}))  # type: ignore[no-untyped-call]  # torch's is untyped
    (stepped,) = (each for group in optimizers[0].param_groups for each in group["params"])
    seen["weights that are stepped"] = stepped.dtype

    def before(*_: Any) -> None:
        assert stepped.grad is not None
        seen["gradient at the optimizer"] = stepped.grad.dtype

    optimizers[0].register_step_pre_hook(before)
    update([torch.ones(1, 2)])
    seen["Adam's moments"] = optimizers[0].state[stepped]["exp_avg_sq"].dtype
    return tuple(str(seen[kind]).removeprefix("torch.") for kind in KINDS)


def stepped_by_hand(optimizer: Callable[..., torch.optim.Optimizer], lr: float) -> float:
    """A weight of 1 of a model that was turned to float16 whole, after a step with a gradient of 1e-4 (Adam) or 1 (SGD)."""
    model = torch.nn.Linear(1, 1, bias=False).half()
    torch.nn.init.ones_(model.weight)
    gradient = 1.0 if optimizer is torch.optim.SGD else 1e-4
    model.weight.grad = torch.full_like(model.weight, gradient)
    optimizer(model.parameters(), lr=lr).step()
    return model.weight.item()


def _half_adam() -> Wrong:
    check = Check(
        what="weight after Adam's first step in float16",
        expected=float("-inf"),
        measured=stepped_by_hand(torch.optim.Adam, 1e-3),
        because="the second moment, 0.001 x (1e-4)^2 = 1e-11, and epsilon, 1e-8, are both below 2^-25: m / (0 + 0)",
    )
    return Wrong(how="model.half() with Adam", check=check, damage="one step, and the weight is infinite")


def _half_sgd() -> Wrong:
    check = Check(
        what="weight of 1 after SGD moved it by 1e-4 in float16",
        expected=1.0,
        measured=stepped_by_hand(torch.optim.SGD, LR),
        because="below 1 float16's steps are 2^-11 = 4.9e-4; less than half of one rounds back to 1, each time again",
    )
    damage = f"the update is lost; with a float32 master the weight is {_with_master():.7g}"
    return Wrong(how="model.half() with SGD", check=check, damage=damage)


def _with_master() -> float:
    """The same step by the engine, whose masters are float32."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    update: truestep.Update[torch.Tensor] = truestep.Update(
        model,
        lambda parameters: torch.optim.SGD(parameters, lr=LR),
        loss=lambda model, x: model(x).sum(),
        policy="fp16-master",
        scale=truestep.LossScale.static(1024.0),
    )
    update([torch.ones(1, 1)])
    return next(iter(update.weights().values())).item()


def _no_product() -> Edge:
    with torch.autocast("cpu", dtype=torch.float16):
        dtype = (torch.ones(2) * torch.ones(2)).dtype
    return Edge(
        where="not all that is computed under autocast is float16: a plain multiplication is on no list",
        check=Check(
            what="result of float32 times float32, elementwise, under autocast",
            expected=HIGH,
            measured=str(dtype).removeprefix("torch."),
            because="autocast casts for the operators on its lists; the others take what comes",
        ),
    )


LAB = Lab(
    name="kept",
    facts=("C4",),
    topic="formats",
    title="What is kept in which format",
    claim="Activations of cast operations, and the gradients of these, are float16. Weights that are stepped and the "
    "optimizer's moments are float32. Under autocast a parameter's own `.grad` is float32 too; it is float16 where the model "
    "holds float16 weights.",
    source="Micikevicius et al. 2018 for the float32 master copy; torch.autocast for what is cast",
    shows=shows,
    after=(After(lab="below-normal", why="what float16 does to small numbers is why moments are not kept in it"),),
    asks=(
        Buckets(
            key="autocast",
            prompt="A linear layer trains with Adam under float16 autocast. Which of its tensors are float16?",
            buckets=(LOW, HIGH),
            answer=lambda shown: dict(zip(KINDS, shown.table(FORMATS_OF).column("fp16"), strict=True)),
            why={
                "weights of the model": "autocast casts a copy for each forward; the weights stay",
                "activation of a product": "a product is on autocast's float16 list",
                "gradient of that activation": "a gradient has the format of what it is the gradient of",
                "gradient of a weight": "the cast's backward turns it to the weight's own float32",
                "gradient at the optimizer": "it is that same gradient, unscaled",
                "weights that are stepped": "they are the model's own",
                "Adam's moments": "Adam makes them like the weights",
            },
        ),
        Choice(
            key="grad",
            prompt="You print `model.weight.grad.dtype` after a float16 autocast backward and see float32. What follows?",
            answer=lambda shown: shown.table(FORMATS_OF).column("fp16")[2],
            options=(
                Option(
                    text="nothing about underflow: the gradient came through float16 on its way",
                    value=LOW,
                    why="The gradient of the activation is float16; what was lost there is lost. The last cast only widens.",
                ),
                Option(
                    text="the backward ran in float32, so no loss scale is needed",
                    value=HIGH,
                    why="Tempting, since the number one can print is float32. It was made from float16 ones.",
                ),
            ),
        ),
        Open(
            key="master",
            prompt="A colleague calls model.half() to save memory and keeps Adam. Say what breaks first, and what to do.",
            rubric=(
                "Adam's second moment and epsilon underflow to 0 in float16: a division by zero",
                "Updates smaller than half a step of float16 are lost, and the weight stands still",
                "float32 masters and moments, or float32 weights with autocast",
            ),
            strong="At gradients of 1e-4 the second moment is 1e-11 and epsilon 1e-8; both are 0 in float16, so the first step "
            "divides by 0. Even with SGD a step of 1e-4 on a weight of 1 rounds away. Keep float32 masters and moments.",
            weak="float16 is less accurate, so the loss will be a bit higher.",
        ),
    ),
)
