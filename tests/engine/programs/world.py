"""What a program's setup builds: the same small model, loss, optimizer and schedule, for the engine and for the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop, lr_scheduler

from tests.engine.programs.program import Micro, Setup

IN, HIDDEN, CLASSES, LENGTH = 4, 5, 3, 3
IGNORED = -100
Batch = dict[str, Any]


class UserError(Exception):
    """What the program's own code raises."""


class Tokens(nn.Module):
    """A language model in miniature; `tied` shares the embedding with the head."""

    def __init__(self, *, tied: bool) -> None:
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(CLASSES, IN), nn.Linear(IN, IN), nn.Linear(IN, CLASSES, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.mix(self.embed(x))))


class Writing(nn.Module):
    """Writes buffers in place, by rebinding and through BatchNorm, and counts its forwards in a plain number."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(IN, HIDDEN), nn.BatchNorm1d(HIDDEN), nn.Linear(HIDDEN, CLASSES)
        self.register_buffer("total", torch.zeros(2))
        self.register_buffer("latest", torch.zeros(IN))
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(1)
        self.latest = x.detach().mean(0)
        self.calls += 1
        return self.last(self.norm(self.first(x)).relu())


def _partly(kind: str) -> nn.Module:
    """An MLP with a parameter that takes no gradient, or one that no loss uses."""
    model = nn.Sequential(nn.Linear(IN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES))
    if kind == "frozen":
        model[0].weight.requires_grad_(False)
    else:
        model.register_parameter("unused", nn.Parameter(torch.ones(3)))
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Sequential(nn.Linear(IN, CLASSES)),
    "mlp": lambda: nn.Sequential(nn.Linear(IN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLASSES)),
    "batchnorm": Writing,
    "dropout": lambda: nn.Sequential(nn.Linear(IN, HIDDEN), nn.Dropout(0.5), nn.Linear(HIDDEN, CLASSES)),
    "tokens": lambda: Tokens(tied=False),
    "tied": lambda: Tokens(tied=True),
    "frozen": lambda: _partly("frozen"),
    "unused": lambda: _partly("unused"),
}
OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: SGD(p, lr=0.125),
    "sgd fused": lambda p: SGD(p, lr=0.125, fused=True),
    "sgd decay": lambda p: SGD(p, lr=0.1, weight_decay=0.1, maximize=True),
    "momentum": lambda p: SGD(p, lr=0.1, momentum=0.9),
    "momentum fused": lambda p: SGD(p, lr=0.1, momentum=0.9, fused=True),
    "nesterov foreach": lambda p: SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "adamw": lambda p: AdamW(p, lr=0.01),
    "adamw fused": lambda p: AdamW(p, lr=0.01, fused=True),
    "adamw foreach": lambda p: AdamW(p, lr=0.01, foreach=True, amsgrad=True),
    "adamw tensor lr": lambda p: AdamW(p, lr=torch.tensor(0.01), foreach=False),
    "adam fused amsgrad": lambda p: Adam(p, lr=0.01, fused=True, amsgrad=True, weight_decay=0.1),
    "adagrad": lambda p: Adagrad(p, lr=0.01),
    "adagrad fused": lambda p: Adagrad(p, lr=0.01, fused=True),
    "rmsprop": lambda p: RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "rmsprop foreach": lambda p: RMSprop(p, lr=0.01, foreach=True),
}
SCHEDULERS: dict[str, Callable[[Optimizer], Any]] = {
    "hyperbola": lambda o: lr_scheduler.LambdaLR(o, lambda ticks: 1.0 / (1.0 + ticks)),
    "halving": lambda o: lr_scheduler.StepLR(o, step_size=2, gamma=0.5),
}
FACTORS: dict[str, Callable[[int], float]] = {
    "hyperbola": lambda ticks: 1.0 / (1.0 + ticks),
    "halving": lambda ticks: 0.5 ** (ticks // 2),
}
"""What each schedule makes of the first learning rate after so many ticks, in closed form."""


WEIGHTS = {"bf16-master": torch.bfloat16, "fp16-master": torch.float16, "bf16-pure": torch.bfloat16}
"""The format of the model's weights, where it is not float32; normalization layers keep theirs."""


@dataclass
class World:
    """A model with what trains it, and what its loss function saw."""

    setup: Setup
    model: nn.Module
    optimizers: list[Optimizer] = field(default_factory=list)
    schedulers: list[Any] = field(default_factory=list)
    backwards: list[int] = field(default_factory=list)
    """One entry for each backward that reached the logits."""
    dtypes: set[torch.dtype] = field(default_factory=set)
    """Those of the logits as the model put them out."""

    @property
    def stepped(self) -> list[nn.Parameter]:
        """What the optimizers hold, in order."""
        return [p for optimizer in self.optimizers for group in optimizer.param_groups for p in group["params"]]

    def train_by(self, params: list[nn.Parameter]) -> list[Optimizer]:
        """Build the optimizers, of `params` in groups or in halves."""
        setup, half = self.setup, len(params) // 2
        if setup.second is not None:
            self.optimizers = [OPTIMIZERS[setup.optimizer](params[:half]), OPTIMIZERS[setup.second](params[half:])]
        else:
            parts = (params[:half], params[half:]) if setup.groups == 2 else (params,)
            self.optimizers = [OPTIMIZERS[setup.optimizer]([{"params": part} for part in parts if part])]
        return self.optimizers

    def schedule(self) -> list[Any]:
        """Build a schedule for each optimizer."""
        name = self.setup.scheduler
        self.schedulers = [] if name is None else [SCHEDULERS[name](optimizer) for optimizer in self.optimizers]
        return self.schedulers

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The user's loss function."""
        return _loss(self, self.setup, model, batch)


def build(setup: Setup, *, seed: int | None = None) -> World:
    """A model in float32, drawn from the setup's seed or another."""
    with torch.random.fork_rng():
        torch.manual_seed(setup.seed if seed is None else seed)
        return World(setup, MODELS[setup.model]())


def parameters(setup: Setup, model: nn.Module) -> list[nn.Parameter]:
    """The parameters that an optimizer is built from."""
    return list(model.parameters())


def batches(setup: Setup, window: tuple[Micro, ...]) -> list[Batch]:
    """The data of a window. `share` is what a loss that comes as a share is multiplied by: the examples' part of the window."""
    total = sum(micro.size for micro in window)
    return [_batch(setup, micro, share=micro.size / total) for micro in window]


def _batch(setup: Setup, micro: Micro, *, share: float) -> Batch:
    draw = torch.Generator().manual_seed(micro.seed)
    speaks = setup.model in ("tokens", "tied")
    shape = (micro.size, LENGTH) if speaks else (micro.size,)
    y = torch.randint(0, CLASSES, shape, generator=draw)
    x = torch.randint(0, CLASSES, shape, generator=draw) if speaks else torch.randn(micro.size, IN, generator=draw)
    if speaks and setup.weights == "scored":
        y[0, 1:] = IGNORED
    if not micro.scored:
        y.fill_(IGNORED)
    if micro.poison in ("nan", "inf") and x.is_floating_point():
        x[0, 0] = float(micro.poison)
    gain = micro.gain if micro.poison in ("gain", "spike") else 0
    return {"x": x, "y": y, "size": micro.size, "poison": micro.poison, "gain": gain, "weight": micro.weight, "share": share}


def join(batches: list[Batch]) -> Batch:
    """One microbatch of the same examples."""
    joined = {name: torch.cat([batch[name] for batch in batches]) for name in ("x", "y")}
    return batches[0] | joined | {"size": len(joined["x"]), "share": 1.0}


def scored(batch: Batch) -> int:
    """The targets that a mean is over."""
    return int((batch["y"] != IGNORED).sum())


def weight_of(setup: Setup, batch: Batch) -> float | None:
    """What the setup says that a microbatch weighs; None where its loss is a share."""
    if setup.loss_is == "share":
        return None
    return {"examples": batch["size"], "scored": scored(batch), "declared": batch["weight"]}[setup.weights]


def _loss(world: World, setup: Setup, model: nn.Module, batch: Batch) -> Tensor:
    if batch["poison"] == "raises":
        model(batch["x"])
        raise UserError("from the loss")
    logits = model(batch["x"])
    world.dtypes.add(logits.dtype)
    if logits.requires_grad:
        logits.register_hook(lambda _: world.backwards.append(1))
    reduction = "sum" if setup.loss_is == "sum" else "mean"
    loss = F.cross_entropy(logits.float().reshape(-1, CLASSES), batch["y"].reshape(-1), reduction=reduction)
    return _spoiled(loss, model, batch) * (batch["share"] if setup.loss_is == "share" else 1.0)


def _spoiled(loss: Tensor, model: nn.Module, batch: Batch) -> Tensor:
    weight = next(p for name, p in model.named_parameters() if p.requires_grad and name != "unused").reshape(-1)[0].float()
    match batch["poison"]:
        case "gain":
            return _times(loss, batch["gain"])
        case "spike":
            return loss + _times(weight - weight.detach(), batch["gain"])
        case "undefined":
            return loss + (weight * 0.0).sqrt()
        case "nan loss":
            return loss * math.nan
        case "inf loss":
            return loss + math.inf
    return loss


def _times(number: Tensor, exponent: int) -> Tensor:
    """`number` * 2^`exponent`, in two steps: at once, 2^130 would be infinite in float32 whatever the loss scale."""
    half = exponent // 2
    return number * 2.0**half * 2.0 ** (exponent - half)
