"""`truestep.memory`: brings a task, an update or a number of parameters to a footprint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from truestep.engine.policy import Policy
from truestep.engine.scale import LossScale
from truestep.engine.update import Update
from truestep.errors import UsageError
from truestep.footprint.footprint import Footprint
from truestep.footprint.formula import Formula, Shard, formula
from truestep.footprint.making import of_task, of_update
from truestep.run.settings import Settings
from truestep.tasks import Task, load


@overload
def memory(
    what: Task | str | Update[Any],
    window: Sequence[Any] | None = None,
    *,
    policy: str | Policy | None = None,
    microbatches: int | None = None,
    seed: int = 0,
    device: str | None = None,
    scale: LossScale | None = None,
    measure: bool = True,
) -> Footprint: ...


@overload
def memory(
    *,
    params: float | str,
    optimizer: str = "adamw",
    policy: str | Policy | None = None,
    microbatches: int | None = None,
    shards: int = 1,
    shard: Shard | None = None,
) -> Formula: ...


def memory(  # long: two ways to ask, each argument told once
    what: Task | str | Update[Any] | None = None,
    window: Sequence[Any] | None = None,
    *,
    policy: str | Policy | None = None,
    microbatches: int | None = None,
    seed: int = 0,
    device: str | None = None,
    scale: LossScale | None = None,
    measure: bool = True,
    params: float | str | None = None,
    optimizer: str | None = None,
    shards: int = 1,
    shard: Shard | None = None,
) -> Footprint | Formula:
    """What memory an update takes: by formula for a number of parameters, else predicted from shapes and measured beside it.

    The prediction runs the engine on fakes of the tensors, which have shapes and no content, and follows each storage from its
    birth to its end. The measurement makes real attempts and takes the device's allocator's word, workspaces inside of kernels
    included (on the CPU not oneDNN's own). Both are made for a first attempt, in which the optimizer's state appears and a copy
    of the weights is kept, and for a later one. Nothing of it stays, for an update of your own is measured on
    a copy; but a measurement on a CUDA device resets torch's peak counters (`torch.cuda.max_memory_allocated`): read yours first.

    Saved for backward by 4 x Linear(256) and their sum, batch 8: in float32 4 x 8192 bytes, the batch and three outputs; under
    bfloat16 autocast 4 x 4096 bytes, and 3 casts of weights of 131072 bytes each. The first layer's cast is not saved, for a
    weight is needed for the gradient of its layer's input alone, and the batch takes none.

    Args:
        what: a task, the name of one as the command line takes it, or an `Update` with its window.
        window: a list of microbatches; None takes a task's first window.
        policy: of a task or a formula, "fp16" where nobody says; an update has its own.
        microbatches: of a window; None: the task's. In a formula: 1.
        seed, device, scale: of a task's run.
        measure: False predicts alone, and allocates weights, or masters, and on the CPU what one convolution or product takes.
        params: a number of parameters, "7.5B" or 7.5e9, in place of `what`.
        optimizer: of a formula: "sgd", "sgd-momentum", "adam", "adamw", "adagrad", "rmsprop", "lion" and others.
        shards, shard: among how many "states", "gradients" or "parameters" are divided (ZeRO 1, 2, 3); None tells every stage.

    Raises:
        UsageError: what cannot be asked, an option that says nothing about what is asked, or an update that cannot be copied.
        RunError: the task's own code failed, or no attempt completed. Whatever an update's own loss raises passes.

    >>> memory(params="7.5B", optimizer="adam", policy="fp16-master", shards=64).stages[1].total_bytes / 1e9
    31.40625
    >>> import torch
    >>> model = torch.nn.Linear(256, 256)
    >>> update = Update(model, torch.optim.SGD(model.parameters(), lr=0.1), loss=lambda model, x: model(x).sum())
    >>> found = memory(update, [torch.ones(8, 256)])
    >>> found.predicted.each.weights, found.measured.each.gradients
    (263168, 263168)

    Source: ZeRO, Rajbhandari et al. 2020, for the division.
    """
    given = {
        "window": window is not None,
        "policy": policy is not None,
        "microbatches": microbatches is not None,
        "seed": seed != 0,
        "device": device is not None,
        "scale": scale is not None,
        "measure": not measure,
        "optimizer": optimizer is not None,
        "shards": shards != 1,
        "shard": shard is not None,
    }
    if params is not None:
        if what is not None:
            raise UsageError("a number of parameters and a task were given", hint="give one of them")
        _only(given, ("policy", "microbatches", "optimizer", "shards", "shard"), "a number of parameters")
        return formula(
            params,
            optimizer=optimizer or "adamw",
            policy=policy or "fp16",
            shards=shards,
            shard=shard,
            microbatches=1 if microbatches is None else microbatches,
        )
    if isinstance(what, Update):
        _only(given, ("window", "measure"), "an update, which has its own policy, device and scale")
        return of_update(what, window, measure=measure)
    if what is None:
        raise UsageError("nothing was named", hint="name a task, or give a number of parameters, as in params='7.5B'")
    split = ("microbatches",) if window is None else ()
    of = "a task" if window is None else "a task with a window of one's own"
    _only(given, ("window", "policy", *split, "seed", "device", "scale", "measure"), of)
    task = load(what) if isinstance(what, str) else what
    asked = Policy.named(policy or "fp16")
    settings = Settings(policy=asked.name, scale=scale, microbatches=microbatches, device=device)
    return of_task(task, settings, window, policy=asked, seed=seed, measure=measure)


def _only(given: Mapping[str, bool], known: Sequence[str], of: str) -> None:
    """UsageError where something was given that has no meaning for what is asked about."""
    for name, there in given.items():
        if there and name not in known:
            raise UsageError(
                f"{name}= says nothing about {of}", hint=f"leave it out; what counts: {', '.join(known)}", option=name
            )
