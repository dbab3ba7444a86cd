"""A skipped attempt has run its forward: what BatchNorm saw of it stays, unless somebody puts it back."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import truestep
from truestep.labs.asking.ask import Buckets, Choice, Number, Option, Tempting
from truestep.labs.clocks._by_torch import one_attempt
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

X = (10.0, 12.0)
"""A batch of two examples of one feature."""
SCALE, LARGE, FINITE = 2.0**16, 2.0**112, 1.0
"""The loss scale; what the loss is multiplied by where its scaled gradient is to leave float32, and where it is not."""
MOMENTUM = 0.1
"""Of BatchNorm, torch's default: what a new batch weighs in the running statistics."""
ROUNDINGS = 4 * 2.0**-24
"""A mean, a product, another and a sum: four float32 roundings of half an ulp at most, relative."""
BEGUN = (0.0, 1.0, 0.0)
LEFT = "running mean, running variance and batches after a skip"
BUFFERS = ("the running mean", "the running variance", "the count of batches")
REST = ("the weight", "the optimizer's momentum", "the loss scale")
KEPT = "weight, states that the optimizer made and next loss scale after a skip"


def shows() -> Shown:
    """The statistics after a skipped attempt, by the engine and by a loop with torch's scaler; and after a completed one."""
    engine, completed = by_the_engine(LARGE), by_the_engine(FINITE)
    scaler, kept = by_the_scaler(LARGE)
    check = Check(
        what=f"{LEFT}, by the engine",
        expected=BEGUN,
        measured=engine,
        because="a skipped attempt is as if it had not been: buffers that its forward wrote are put back, to the bit",
    )
    moved = Check(
        what=f"{LEFT}, by GradScaler",
        expected=_moved(),
        measured=scaler,
        within=max(_moved()) * ROUNDINGS,
        because="0.9 x 0 + 0.1 x 11, 0.9 x 1 + 0.1 x 2, one batch: no forward knows that its step will be skipped",
    )
    same = Check(
        what=f"{KEPT}, by GradScaler",
        expected=(1.0, 0.0, SCALE / 2),
        measured=kept,
        because="the optimizer was not called: its weight of 1 stands, and it has made no state; update() halves the scale",
    )
    edge = Check(
        what="running mean, running variance and batches after a completed attempt, by the engine",
        expected=_moved(),
        measured=completed,
        within=max(_moved()) * ROUNDINGS,
        because="nothing is put back of an attempt that is part of the training",
    )
    rows = tuple(
        (who, *buffers)
        for who, buffers in (("before", BEGUN), ("engine", engine), ("GradScaler", scaler), ("completed", completed))
    )
    return Shown(
        checks=(check, same),
        wrong=(
            Wrong(
                how="torch.amp.GradScaler: step() leaves the optimizer out, and nothing else",
                check=moved,
                damage=f"the mean has moved by {scaler[0]:.2g} in an attempt that changed no weight",
            ),
        ),
        edges=(Edge(where="a completed attempt: there the statistics are to move", check=edge),),
        tables=(Table(title="BatchNorm's buffers", columns=("after", "mean", "variance", "batches"), rows=rows),),
    )


def by_the_engine(large: float) -> tuple[float, ...]:
    """The statistics after one attempt of the engine on a loss that is `large` times the mean output."""
    model, loss, x = _batch_norm(large)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    outcome = truestep.Update(model, optimizer, loss=loss, scale=truestep.LossScale.dynamic(init=SCALE))([x])
    assert outcome.completed is (large == FINITE)
    return _statistics(model)


def by_the_scaler(large: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The same by a loop with torch's scaler; then its weight, how many states the optimizer has made, and the next scale."""
    model, loss, x = _batch_norm(large)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
    scale = one_attempt(scaler, optimizer, loss(model, x))
    layer = model[1]
    assert isinstance(layer, nn.Linear)
    return _statistics(model), (layer.weight.item(), float(len(optimizer.state)), scale)


def _moved() -> tuple[float, ...]:
    """What one batch of X makes of the statistics at their beginning; the variance is the unbiased one."""
    mean = sum(X) / len(X)
    variance = sum((x - mean) ** 2 for x in X) / (len(X) - 1)
    return (1 - MOMENTUM) * BEGUN[0] + MOMENTUM * mean, (1 - MOMENTUM) * BEGUN[1] + MOMENTUM * variance, 1.0


def _batch_norm(large: float) -> tuple[nn.Sequential, _Loss, Tensor]:
    norm, linear = nn.BatchNorm1d(1, momentum=MOMENTUM), nn.Linear(1, 1)
    nn.init.ones_(linear.weight)
    return nn.Sequential(norm, linear), _Loss(large), torch.tensor(X)[:, None]


class _Loss:
    """The mean output, times a number."""

    def __init__(self, large: float) -> None:
        self._large = large

    def __call__(self, model: nn.Module, x: Tensor) -> Tensor:
        return torch.mean(model(x)) * self._large


def _statistics(model: nn.Sequential) -> tuple[float, ...]:
    return tuple(float(buffer) for buffer in model.buffers())


def _changed(shown: Shown) -> dict[str, str]:
    """What is not as it was before the skip, as measured."""
    now = {
        **dict(zip(BUFFERS, shown.measured(f"{LEFT}, by GradScaler"), strict=True)),
        **dict(zip(REST, shown.measured(f"{KEPT}, by GradScaler"), strict=True)),
    }
    before = dict(zip((*BUFFERS, *REST), (*BEGUN, 1.0, 0.0, SCALE), strict=True))
    return {name: "as before" if value == before[name] else "changed" for name, value in now.items()}


LAB = Lab(
    name="skipped-statistics",
    facts=("D8",),
    topic="clocks",
    title="What a skip leaves behind",
    claim="An attempt whose gradient overflows is skipped: it leaves the model as it was.",
    source="a common account; torch.amp.GradScaler.step says that optimizer.step() is skipped to avoid corrupting the params, "
    "and so speaks of parameters alone",
    condition="no module writes buffers in its forward, or somebody puts them back: GradScaler leaves the optimizer out alone.",
    shows=shows,
    after=(
        After(lab="told-apart", why="it shows what a skipped attempt is; here is what it has done before it was skipped"),
        After(lab="fused-skips", why="it shows the trace that a skip leaves in an optimizer; this one is in the model"),
    ),
    asks=(
        Number(
            key="mean",
            prompt="A fresh BatchNorm (momentum 0.1) sees the batch [10, 12]; the gradient overflows and GradScaler skips. "
            "What is its running mean?",
            answer=lambda shown: shown.measured(f"{LEFT}, by GradScaler")[0],
            why="The forward ran: 0.9 x 0 + 0.1 x 11. Only the optimizer's step was left out.",
            tempting=(
                Tempting(
                    value=lambda shown: shown.measured(f"{LEFT}, by the engine")[0],
                    why="That is what a skip ought to leave, and what the engine leaves.",
                ),
                Tempting(value=lambda _: sum(X) / len(X), why="That is the batch's own mean; it enters with a weight of 0.1."),
            ),
        ),
        Choice(
            key="evidence",
            prompt="Where would a run with many such skips first show it?",
            answer=lambda shown: "evaluation" if shown.measured(f"{LEFT}, by GradScaler") != BEGUN else "nowhere",
            options=(
                Option(
                    text="in the evaluation, which uses the running statistics",
                    value="evaluation",
                    why="Training normalises by the batch itself; only evaluation reads what the skipped forwards wrote.",
                ),
                Option(
                    text="in the training loss",
                    value="loss",
                    why="It tempts because the loss is watched. In training BatchNorm does not read its running statistics.",
                ),
                Option(
                    text="nowhere: a skip changes nothing",
                    value="nowhere",
                    why="It tempts because the weights are as before. The buffers are not.",
                ),
            ),
        ),
        Buckets(
            key="kept",
            prompt="GradScaler skips an attempt. What has changed, and what is as before?",
            buckets=("changed", "as before"),
            answer=_changed,
            why={
                "the running mean": "the forward wrote it",
                "the running variance": "the forward wrote it",
                "the count of batches": "the forward counted itself",
                "the weight": "step() did not call the optimizer",
                "the optimizer's momentum": "no step, no state",
                "the loss scale": "update() halves it after an overflow, so that the next attempt can fit",
            },
        ),
    ),
)
